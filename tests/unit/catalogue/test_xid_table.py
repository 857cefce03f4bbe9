"""The Xids, against lists written here from the sources."""

from __future__ import annotations

import json

import pytest

from cdk_gpu_clusters.catalogue.xids import XidClass, node_xids, xid_messages, xid_sources, xids

# aws/eks-node-monitoring-agent @ 51af549, WellKnownXidCodes, with the default repair of the EKS user guide.
EKS_REBOOTS = {46, 48, 54, 62, 63, 95, 109, 110, 136, 140, 143, 155, 156, 158}
EKS_REPLACES = {64, 74, 79, 119, 120, 142, 151}
# NVIDIA's catalogue of Xids, resolution bucket "restart the application".
APPLICATION = {8, 11, 13, 25, 31, 32, 69, 94}


@pytest.mark.parametrize("code", EKS_REBOOTS | EKS_REPLACES)
def test_where_eks_acts_a_node_does_the_same(code: int) -> None:
    expected = XidClass.REBOOT if code in EKS_REBOOTS else XidClass.REPLACE
    assert xids()[code].xid_class is expected


def test_eks_acts_on_no_other_code() -> None:
    assert {xid.code for xid in xids().values() if xid.eks} == EKS_REBOOTS | EKS_REPLACES


@pytest.mark.parametrize("code", APPLICATION)
def test_an_application_that_failed_is_no_broken_node(code: int) -> None:
    assert xids()[code].xid_class is XidClass.MONITOR


def test_blackwells_link_errors_are_reset_as_nvidia_says() -> None:
    assert {xids()[code].xid_class for code in range(144, 151)} == {XidClass.RESET}


def test_nothing_is_replaced_by_one_source_that_another_contradicts() -> None:
    """162 is informational in the newer catalogue; a GPU that is well is not reset for it."""
    assert xids()[162].xid_class is XidClass.MONITOR
    assert xids()[162].nvidia == "RESET_GPU"
    assert xids()[162].note


def test_every_code_once_with_a_source() -> None:
    assert set(range(1, 163)) <= set(xids())
    rows = json.loads(node_xids())
    assert len(rows) == len(xids())
    for xid in xids().values():
        assert xid.nvidia or xid.eks or xid.aws_suite or "NVIDIA's memory guide" in xid.note


def test_disagreement_in_more_than_degree_has_a_note() -> None:
    """EKS acts where NVIDIA ignores it, or does not expect it."""
    for xid in xids().values():
        if xid.eks and xid.nvidia in ("IGNORE", "UNEXPECTED_ERR_REPORT_ISSUE"):
            assert xid.note, xid.code


def test_the_message_of_154_decides() -> None:
    row = json.loads(node_xids())["154"]
    assert row["class"] == "message"
    assert row["messages"]["Node Reboot Required"] == "reboot"
    assert set(xid_messages().values()) <= {XidClass.MONITOR, XidClass.RESET, XidClass.REBOOT}


def test_sources_have_dates() -> None:
    assert set(xid_sources()) == {"nvidia", "eks", "aws_suite", "memory"}
    for text in xid_sources().values():
        assert text.endswith(("2026-07-23)", "2026-08-18)", "2026-11-20)", "2026-11-21)"))
