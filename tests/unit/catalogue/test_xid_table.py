"""The Xids, against lists written here from the sources."""

from __future__ import annotations

import json

import pytest

from cdk_gpu_clusters.catalogue.xids import (
    XidClass,
    harmless_link_down_reasons,
    node_xids,
    nvidia_actions,
    recovery_actions,
    sxids,
    xid_sources,
    xids,
)

# aws/eks-node-monitoring-agent @ 51af549, WellKnownXidCodes.
EKS_AGENT = {46, 48, 54, 62, 63, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 142, 143, 151, 155, 156, 158}
# The comment of the same file: those whose resolution bucket of NVIDIA begins with a reset.
RESETS = {46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158}
# NVIDIA's catalogue of Xids, resolution bucket "restart the application".
APPLICATION = {8, 11, 13, 25, 31, 32, 69, 94}
# NVIDIA/open-gpu-kernel-modules @ 595.45.04, enum NV2080_CTRL_GPU_RECOVERY_ACTION and _gpuRecoveryActionName.
DRIVER_ACTIONS = {
    0: "None",
    1: "GPU Reset Required",
    2: "Node Reboot Required",
    3: "Drain P2P",
    4: "Drain and Reset",
    5: "Recover IMEX Domain",
}


def test_the_agent_of_eks_acts_on_these() -> None:
    assert {xid.code for xid in xids().values() if xid.eks_agent} == EKS_AGENT


@pytest.mark.parametrize("code", sorted(RESETS))
def test_what_nvidia_resets_is_reset_before_it_is_replaced(code: int) -> None:
    assert xids()[code].xid_class is XidClass.RESET


@pytest.mark.parametrize("code", sorted(APPLICATION))
def test_an_application_that_failed_is_no_broken_node(code: int) -> None:
    assert xids()[code].xid_class is XidClass.MONITOR


def test_only_what_no_repair_on_the_node_mends_is_replaced() -> None:
    """A power cycle, a cable of the host, and an encoder for which NVIDIA knows no recovery."""
    assert {xid.code for xid in xids().values() if xid.xid_class is XidClass.REPLACE} == {54, 79, 142}


def test_memory_that_is_marked_for_repair_keeps_its_node() -> None:
    """NVIDIA ignores 63, 160 and 161; the check of remapped rows asks for the reset that completes a repair."""
    assert {xids()[code].xid_class for code in (63, 160, 161)} == {XidClass.MONITOR}


def test_a_class_that_nvidia_did_not_choose_has_a_reason() -> None:
    for xid in xids().values():
        if xid.xid_class is XidClass.REPLACE or (xid.nvidia is None and xid.name):
            assert xid.note, xid.code


def test_a_repair_of_aws_that_a_node_leaves_out_has_a_reason() -> None:
    for xid in xids().values():
        if (xid.eks or xid.eks_agent or xid.ecs) and xid.xid_class is XidClass.MONITOR:
            assert xid.note, xid.code


def test_every_code_of_the_driver_is_known() -> None:
    """nverror.h of driver 595 ends with 176."""
    assert set(xids()) == set(range(1, 177))
    assert {xid.nvidia for xid in xids().values()} - {None} <= set(nvidia_actions())


@pytest.mark.parametrize(("code", "text"), DRIVER_ACTIONS.items())
def test_recovery_actions_are_those_of_the_driver(code: int, text: str) -> None:
    assert text in recovery_actions()[code].texts


def test_a_request_of_the_driver_is_never_only_watched() -> None:
    classes = {code: row.xid_class for code, row in recovery_actions().items()}
    assert classes.pop(0) is XidClass.MONITOR
    assert set(classes.values()) == {XidClass.RESET, XidClass.REBOOT}
    assert (classes[2], classes[7]) == (XidClass.REBOOT, XidClass.REBOOT)


def test_the_node_gets_the_whole_table() -> None:
    table = json.loads(node_xids())
    assert table["xids"]["79"] == {"class": "replace", "name": "GPU has fallen off the bus"}
    assert table["xids"]["154"]["class"] == "recovery"
    assert {table["xids"][str(code)]["class"] for code in range(144, 151)} == {"nvlink5"}
    assert table["recovery_actions"]["2"] == "reboot"
    assert table["harmless_link_down_reasons"] == list(harmless_link_down_reasons())
    assert set(table["sxids"]) == {str(code) for code in sxids()}


def test_sources_have_dates() -> None:
    for text in xid_sources().values():
        assert text.endswith(")")
        assert text[-11:-7].isdigit()
