"""What a managed node group says of capacity, size, updates and repair, and what EKS would refuse."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cdk_gpu_clusters.catalogue import AcceleratorKind, instance_type, instance_types
from cdk_gpu_clusters.catalogue.xids import XidClass, xids
from cdk_gpu_clusters.errors import Finding
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
    check_updates,
    choose_ami_type,
    desired_size,
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
    assert (update_strategy(decision) is UpdateStrategy.MINIMAL) == kind.is_reserved
    assert desired_size(decision, minimum=4, maximum=4) == (None if kind.is_block else 4)
    assert desired_size(decision, minimum=0, maximum=4) is None


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


def test_an_ultraserver_block_has_no_id_that_eks_takes() -> None:
    assert ids(check_block_of_group(terms(CapacityKind.ULTRASERVER_BLOCK))) == ["GPU-EKS-040"]
    assert not check_block_of_group(terms(CapacityKind.CAPACITY_BLOCK))


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
