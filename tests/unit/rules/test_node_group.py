"""What a managed node group says of capacity, size, updates and repair, and what EKS would refuse."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cdk_gpu_clusters.catalogue import AcceleratorKind, instance_type, instance_types
from cdk_gpu_clusters.catalogue.xids import XidClass, xids
from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms, decide_capacity
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL, NodeTaint
from cdk_gpu_clusters.rules.node_group import (
    CAPACITY_TYPES,
    NodeRepair,
    RepairAction,
    RepairOverride,
    UpdateStrategy,
    application_xids,
    check_block_of_group,
    check_group_labels,
    check_group_taints,
    check_release,
    check_repair,
    check_replacement,
    check_updates,
    choose_ami_type,
    desired_size,
    drained_percent,
    grace_period_seconds,
    surge_nodes,
    update_strategy,
)

END = datetime(2026, 12, 15, 11, 30, tzinfo=UTC)


def terms(kind: CapacityKind) -> CapacityTerms:
    reserved = "cr-0123456789abcdef0" if kind.is_reserved else None
    return CapacityTerms(kind=kind, ends_at=END if kind.is_block else None, reservation_id=reserved)


@pytest.mark.parametrize("kind", CapacityKind)
def test_every_capacity_has_a_type_a_strategy_and_a_size(kind: CapacityKind) -> None:
    decision = decide_capacity(terms(kind), efa=True)
    assert (
        CAPACITY_TYPES[kind].value
        == {
            "on-demand": "ON_DEMAND",
            "reservation": "ON_DEMAND",
            "spot": "SPOT",
            "capacity-block": "CAPACITY_BLOCK",
            "ultraserver-block": "CAPACITY_BLOCK",
        }[kind.value]
    )
    assert (update_strategy(decision, instance_type("g6e.xlarge")) is UpdateStrategy.MINIMAL) == kind.is_reserved
    # Up to two more nodes in each zone would have to be found, and paid for.
    assert update_strategy(decision, instance_type("p5.48xlarge")) is UpdateStrategy.MINIMAL
    # EKS empties a group on a block at 40 minutes before its end, EC2 ends nodes from 30; Spot nodes have two minutes.
    assert grace_period_seconds(decision) == (480 if kind.is_block else 90)
    assert desired_size(keeps_size=True, minimum=0, maximum=4) == 4
    assert desired_size(keeps_size=False, minimum=1, maximum=4) == 1


@pytest.mark.parametrize(
    ("strategy", "minimum", "maximum", "at_once", "percent"),
    [
        (UpdateStrategy.MINIMAL, 1, 1, 1, 100),
        (UpdateStrategy.MINIMAL, 3, 3, 1, 34),
        (UpdateStrategy.MINIMAL, 8, 8, 4, 50),
        (UpdateStrategy.MINIMAL, 2, 2, 9, 100),
        (UpdateStrategy.MINIMAL, 1, 4, 1, 100),
        (UpdateStrategy.DEFAULT, 1, 4, 1, 25),
        (UpdateStrategy.DEFAULT, 0, 1, 1, 100),
    ],
)
def test_an_update_empties_a_share_of_the_nodes(
    strategy: UpdateStrategy, minimum: int, maximum: int, at_once: int, percent: int
) -> None:
    assert drained_percent(strategy, minimum=minimum, maximum=maximum, max_unavailable=at_once) == percent


def test_every_type_gets_the_image_with_its_drivers() -> None:
    for record in instance_types().values():
        row, findings = choose_ami_type(record)
        assert row is not None, record.name
        assert not findings
        kind = None if record.accelerator is None else record.accelerator.kind
        ending = {None: "STANDARD", AcceleratorKind.GPU: "NVIDIA", AcceleratorKind.NEURON: "NEURON"}[kind]
        assert row.ami_type.startswith("AL2023_")
        assert row.ami_type.endswith(ending)
        assert ("ARM_64" in row.ami_type) == (record.architecture == "arm64")


def test_only_faults_that_applications_cause_are_not_repaired() -> None:
    reasons = {one.reason: one.action for one in application_xids(instance_type("p5.48xlarge"))}
    assert set(reasons.values()) == {RepairAction.NO_ACTION}
    for code, xid in xids().items():
        if f"NvidiaXID{code}Error" in reasons:
            assert xid.xid_class is XidClass.MONITOR
            assert xid.nvidia == "RESTART_APP"
    assert "NvidiaXID79Error" not in reasons, "a GPU that fell off the bus is replaced"


@pytest.mark.parametrize("name", ["trn2.48xlarge", "m8g.4xlarge"])
def test_nodes_without_gpus_have_no_xids(name: str) -> None:
    assert application_xids(instance_type(name)) == ()


def test_the_users_own_overrides_stand_alone() -> None:
    own = RepairOverride(condition="StorageReady", reason="Any", action=RepairAction.REPLACE, wait_minutes=5)
    assert NodeRepair(overrides=(own,)).overrides_for(instance_type("p5.48xlarge")) == (own,)
    assert NodeRepair(overrides=()).overrides_for(instance_type("p5.48xlarge")) == ()


def ids(findings: list[Finding]) -> list[str]:
    return [finding.id for finding in findings]


def test_a_managed_group_launches_into_an_ultraserver_block_by_its_id() -> None:
    block = replace(terms(CapacityKind.ULTRASERVER_BLOCK), reservation_id=None)
    assert ids(check_block_of_group(block)) == ["GPU-EKS-040"]
    assert not check_block_of_group(replace(block, reservation_id="cr-0123456789abcdef0"))
    assert not check_block_of_group(terms(CapacityKind.CAPACITY_BLOCK))


def test_a_group_that_an_autoscaler_sizes_has_no_end() -> None:
    ends = CapacityTerms(kind=CapacityKind.ON_DEMAND, ends_at=END)
    assert ids(check_block_of_group(ends, keeps_size=False)) == ["GPU-EKS-051"]
    assert not check_block_of_group(ends, keeps_size=True)
    assert not check_block_of_group(CapacityTerms(kind=CapacityKind.ON_DEMAND), keeps_size=False)


def test_pods_on_spot_have_no_longer_than_spot_gives_also_with_an_end() -> None:
    ends = CapacityTerms(kind=CapacityKind.SPOT, ends_at=END)
    assert grace_period_seconds(decide_capacity(ends, efa=False)) == 90


def test_spot_has_no_price_on_eks() -> None:
    priced = CapacityTerms(kind=CapacityKind.SPOT, max_price_usd_per_hour=3.5)
    assert ids(check_block_of_group(priced)) == ["GPU-EKS-041"]
    assert not check_block_of_group(CapacityTerms(kind=CapacityKind.SPOT))


def test_neuron_on_arm_has_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdk_gpu_clusters.rules.node_group.ami_type", lambda **_: None)
    row, findings = choose_ami_type(instance_type("trn2.48xlarge"))
    assert row is None
    assert ids(findings) == ["GPU-EKS-042"]
    assert "neuron accelerators on x86_64" in str(findings[0])


def test_labels_of_others_are_theirs() -> None:
    labels = {FLEET_LABEL: "a", "team": "b", "gpu-cluster/gpu": "H200", "eks.amazonaws.com/nodegroup": "x"}
    found = check_group_labels(labels)
    assert [(one.id, one.path) for one in found] == [
        ("GPU-EKS-043", "labels.gpu-cluster/gpu"),
        ("GPU-EKS-043", "labels.eks.amazonaws.com/nodegroup"),
    ]


def test_taints_stand_once_and_are_not_too_many() -> None:
    twice = [NodeTaint(key="a"), NodeTaint(key="a", value="b"), NodeTaint(key="a", effect="NoExecute")]
    assert [(one.id, one.path) for one in check_group_taints(twice)] == [("GPU-EKS-044", "taints[1]")]
    many = [NodeTaint(key=f"key-{index}") for index in range(51)]
    assert ids(check_group_taints(many)) == ["GPU-EKS-044"]
    assert not check_group_taints(many[:50])


@pytest.mark.parametrize(("number", "wrong"), [(0, True), (1, False), (100, False), (101, True)])
def test_an_update_takes_1_to_100_nodes(number: int, wrong: bool) -> None:
    assert ids(check_updates(number, 16)) == (["GPU-EKS-045"] if wrong else [])


@pytest.mark.parametrize("kind", CapacityKind)
def test_a_deployment_does_not_update_a_group_on_a_block(kind: CapacityKind) -> None:
    found = check_replacement(terms(kind), None, rolls=True)
    assert ids(found) == (["GPU-EKS-048"] if kind is CapacityKind.CAPACITY_BLOCK else [])
    assert not check_replacement(terms(kind), None, rolls=False)


@pytest.mark.parametrize("kind", CapacityKind)
def test_new_nodes_do_not_come_first_in_a_reservation(kind: CapacityKind) -> None:
    found = check_replacement(terms(kind), UpdateStrategy.DEFAULT, rolls=False)
    assert [(one.id, one.severity) for one in found] == [("GPU-EKS-049", Severity.WARNING)] * kind.is_reserved
    assert not check_replacement(terms(kind), UpdateStrategy.MINIMAL, rolls=False)


@pytest.mark.parametrize(
    ("strategy", "zones", "at_once", "more"),
    # The guide's own example: five zones launch ten nodes for one unavailable node, and 20 for 20.
    [
        (UpdateStrategy.DEFAULT, 5, 1, 10),
        (UpdateStrategy.DEFAULT, 5, 20, 20),
        (UpdateStrategy.DEFAULT, 1, 1, 2),
        (UpdateStrategy.MINIMAL, 5, 20, 0),
    ],
)
def test_an_update_adds_nodes(strategy: UpdateStrategy, zones: int, at_once: int, more: int) -> None:
    assert surge_nodes(strategy, zones=zones, max_unavailable=at_once) == more


def test_limits_of_repair() -> None:
    never = RepairOverride(condition="a", reason="b", action=RepairAction.REBOOT, wait_minutes=0)
    found = check_repair(NodeRepair(max_unhealthy_percentage=101, max_parallel_count=0, overrides=(never,)))
    assert ids(found) == ["GPU-EKS-046"] * 3
    assert not check_repair(NodeRepair(max_unhealthy_percentage=100, max_parallel_count=1))


@pytest.mark.parametrize(
    ("release", "version", "wrong"),
    [
        ("1.34.1-20260709", "1.34", False),
        ("1.33.5-20260709", "1.34", True),
        ("1.3.1-20260709", "1.34", True),
        (None, "1.34", False),
        ("1.34.1-20260709", None, False),
    ],
)
def test_a_release_is_one_of_the_clusters_version(release: str | None, version: str | None, wrong: bool) -> None:
    assert ids(check_release(release, version)) == (["GPU-EKS-047"] if wrong else [])
