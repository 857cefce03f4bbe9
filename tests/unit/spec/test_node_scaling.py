"""What launches nodes of Amazon EKS for pods: `managed_by`, and the Cluster Autoscaler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.spec import read_cluster
from cdk_gpu_clusters_stacks.spec._parts import parts_of
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet, planned_fleets

FILE = """\
version: 1
name: demo
region: us-east-1
orchestrator: eks
network: { availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }
eks: { software: { apply: true } }
training:
  fleets:
    a: { instance_type: g6e.xlarge, nodes: 2, managed_by: karpenter }
"""
BOUNDED = "min_nodes: 0, max_nodes: 2"


def found(tmp_path: Path, text: str) -> list[str]:
    """Findings of a file as `key id severity`, without those about the capacity of a type."""
    file = tmp_path / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    findings = [one for one in read_cluster(file).findings if one.id != "GPU-CAP-009"]
    return [f"{_key(text, *one.path.split(':')[-2:])} {one.id} {one.severity.value}" for one in findings]


def _key(text: str, line: str, column: str) -> str:
    """The key at a place of the file, or before it."""
    whole, at = text.splitlines()[int(line) - 1], int(column) - 1
    at_key = re.match(r"\w+(?=:)", whole[at:])
    return at_key[0] if at_key else re.findall(r"\w+(?=: )", whole[:at])[-1]


def fleet(tmp_path: Path, text: str) -> PlannedFleet:
    file = tmp_path / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    spec = read_cluster(file).spec
    assert spec is not None
    assert parts_of(spec).fleets
    return planned_fleets(spec)[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("managed_by: karpenter", "managed_by: eks"),
        (", managed_by: karpenter", ""),
        ("nodes: 2", BOUNDED),
        ("g6e.xlarge, nodes: 2", f"p5.48xlarge, {BOUNDED}"),
        ("nodes: 2", "nodes: 2, capacity: spot"),
        (
            "g6e.xlarge, nodes: 2",
            "p5.48xlarge, nodes: 2, capacity: { capacity_block: cr-0123456789abcdef0, ends_at: 2099-12-15T11:30Z }",
        ),
        ("nodes: 2", "nodes: 2, capacity: { new_reservation: { unlimited: true } }"),
        ("nodes: 2", "nodes: 2, update: rolling"),
        ("g6e.xlarge, nodes: 2", f"p4d.24xlarge, efa: false, mig: '1g.5gb,1g.5gb', {BOUNDED}"),
    ],
)
def test_what_karpenter_launches_has_no_finding(old: str, new: str, tmp_path: Path) -> None:
    assert old in FILE
    assert found(tmp_path, FILE.replace(old, new)) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("orchestrator: eks", "orchestrator: ec2", "managed_by GPU-SPEC-060 warning"),
        ("apply: true", "apply: false", "managed_by GPU-SPEC-060 error"),
        ("nodes: 2", "min_nodes: 1, max_nodes: 2", "min_nodes GPU-EKS-061 error"),
        (
            "g6e.xlarge, nodes: 2",
            "p5.48xlarge, nodes: 2, interface_policy: efa-per-card",
            "interface_policy GPU-EKS-060 error",
        ),
        (
            "nodes: 2",
            "nodes: 2, capacity: { reservation_group: 'arn:aws:resource-groups:us-east-1:111122223333:group/a' }",
            "capacity GPU-EKS-062 error",
        ),
        (
            "nodes: 2",
            "nodes: 2, update: rolling, capacity: { reservation: cr-0123456789abcdef0 }",
            "update GPU-EKS-065 warning",
        ),
        ("g6e.xlarge", "p5.48xlarge", "nodes GPU-EKS-075 warning"),
        (
            "nodes: 2",
            "nodes: 2, capacity: { on_demand: { ends_at: 2099-12-15T11:30Z } }",
            "capacity GPU-EKS-076 error",
        ),
        (
            "nodes: 2",
            "nodes: 2, capacity: { reservation: cr-0123456789abcdef0, ends_at: 2099-12-15T11:30Z }",
            "capacity GPU-EKS-076 error",
        ),
        ("managed_by: karpenter", "managed_by: fargate", "managed_by GPU-SPEC-008 error"),
        (
            "apply: true",
            "apply: true, cluster_autoscaler: true",
            "cluster_autoscaler GPU-EKS-068 error",
        ),
    ],
)
def test_what_it_cannot_launch_is_named_at_its_key(old: str, new: str, expected: str, tmp_path: Path) -> None:
    assert old in FILE
    assert expected in found(tmp_path, FILE.replace(old, new))


def test_the_cluster_autoscaler_sizes_managed_groups_with_bounds_and_no_others(tmp_path: Path) -> None:
    asked = FILE.replace("apply: true", "apply: true, cluster_autoscaler: true")
    bounded = asked.replace("nodes: 2", BOUNDED)
    managed = bounded.replace("karpenter", "eks")
    assert found(tmp_path, managed) == []
    assert "cluster_autoscaler GPU-SPEC-060 error" in found(tmp_path, managed.replace("apply: true", "apply: false"))
    assert fleet(tmp_path, managed).is_autoscaled
    assert not fleet(
        tmp_path, managed.replace(BOUNDED, "nodes: 2").replace("true, cluster_autoscaler: ", "")
    ).is_autoscaled
    # A group has one that launches its nodes: Karpenter's is never among those of the Cluster Autoscaler.
    assert "cluster_autoscaler GPU-EKS-068 error" in found(tmp_path, bounded)


@pytest.mark.parametrize(
    ("size", "scales"),
    [
        ("nodes: 2", False),
        (BOUNDED, True),
        ("nodes: 2, capacity: { reservation: cr-0123456789abcdef0 }", True),
    ],
)
def test_manifests_know_whether_pods_bring_nodes(size: str, scales: bool, tmp_path: Path) -> None:
    assert fleet(tmp_path, FILE.replace("nodes: 2", size)).node_pool.scales is scales
    managed = fleet(tmp_path, FILE.replace("nodes: 2", size).replace("karpenter", "eks"))
    assert not managed.node_pool.scales, "only with an autoscaler"


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("nodes: 2", 0),
        ("nodes: 2, update: rolling", 1),
        (f"{BOUNDED}, update: rolling", 0),
    ],
)
def test_karpenter_adds_nodes_for_an_update_only_to_a_pool_of_a_fixed_size(
    text: str, nodes: int, tmp_path: Path
) -> None:
    assert fleet(tmp_path, FILE.replace("nodes: 2", text)).surge_nodes == nodes
