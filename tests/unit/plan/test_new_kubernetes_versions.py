"""Another version of Kubernetes: what a deployment does to which nodes, and which steps EKS refuses."""

from __future__ import annotations

from datetime import date

import pytest

from cdk_gpu_clusters.catalogue.kubernetes import DEFAULT_KUBERNETES_VERSION, KubernetesVersion, kubernetes_versions
from cdk_gpu_clusters.rules.eks_cluster import check_support, check_version_change
from cdk_gpu_clusters_stacks.plan import Change, Comparison, compare_clusters
from cdk_gpu_clusters_stacks.spec import ClusterSpec, read_cluster

CLUSTER = """\
version: 1
name: lab
region: us-east-1
orchestrator: eks
network: { availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }
eks: { KEY }
training:
  fleets:
    trainers: { instance_type: p5.48xlarge, nodes: 4, capacity: { reservation: cr-0123456789abcdef0 } }
inference:
  fleets:
    chat: { instance_type: g6e.xlarge, nodes: 2, update: rolling, server: { image: "vllm/vllm-openai:v0.21.0" } }
"""


@pytest.fixture(autouse=True)
def _in_december_2026(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1796083200")  # 2026-12-01T00:00Z


def text(version: str | None) -> str:
    return CLUSTER.replace("KEY", "" if version is None else f'kubernetes_version: "{version}"')


def load(version: str | None) -> ClusterSpec:
    spec = read_cluster("cluster.yaml", content=text(version).encode()).spec
    assert spec is not None
    return spec


def compare(before: str | None, after: str | None) -> Comparison:
    return compare_clusters(load(before), load(after))


def nodes(comparison: Comparison, stack: str, resource: str) -> str:
    def matches(one: Change) -> bool:
        return one.stack == stack and one.resource == resource

    (found,) = filter(matches, comparison.changes)
    return found.nodes


def test_the_plan_says_what_is_drained_and_what_keeps_its_version() -> None:
    found = compare("1.34", "1.35")
    assert found.refused == ()
    control_plane = nodes(found, "lab-eks", "AWS::EKS::Cluster")
    first, then, kept = control_plane.split("; ")
    assert "system nodes one at a time, and drains each" in first
    assert then == "then the nodes of chat, by their stacks"
    assert kept.startswith("nodes of trainers keep 1.34 (update: never)")
    assert "after the control plane, and drains each" in nodes(found, "lab-eks", "AWS::EKS::Nodegroup")
    assert "drains each (update: rolling)" in nodes(found, "lab-inference-chat", "AWS::EKS::Nodegroup")
    assert "lab-fleet-trainers" in found.unchanged


def test_nothing_is_said_of_versions_where_the_version_stays() -> None:
    before = text("1.35")
    after = read_cluster("cluster.yaml", content=before.replace("nodes: 2", "nodes: 3").encode()).spec
    assert after is not None
    found = compare_clusters(load("1.35"), after)
    assert "reach the new size" in nodes(found, "lab-inference-chat", "AWS::EKS::Nodegroup")
    assert compare(DEFAULT_KUBERNETES_VERSION, None).changes == ()


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ("1.34", "1.34", False),
        ("1.34", "1.35", False),
        ("1.34", "1.36", True),
        ("1.33", "1.36", True),
        ("1.35", "1.34", True),
        (None, "1.34", True),
        ("1.33", None, True),
    ],
)
def test_versions_go_up_one_by_one(before: str | None, after: str | None, refused: bool) -> None:
    reading = read_cluster("cluster.yaml", content=text(after).encode(), deployed=load(before))
    found = [(one.id, one.path) for one in reading.findings if one.id == "GPU-EKS-081"]
    where = "cluster.yaml:6:28" if after else "cluster.yaml:6:1"
    assert found == [("GPU-EKS-081", where)] * refused
    assert [one.id for one in compare(before, after).refused] == ["GPU-EKS-081"] * refused


def test_the_step_between_is_named() -> None:
    (found,) = check_version_change("1.33", "1.36")
    assert found.fix.startswith("deploy 1.34 first")
    assert not list(check_version_change("1.9", "1.10"))
    assert not list(check_version_change("${Token[1]}", "1.35"))


@pytest.mark.parametrize("row", kubernetes_versions(), ids=lambda row: row.version)
def test_a_version_is_refused_when_its_extended_support_is_over(
    row: KubernetesVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = row.extended_support_ends
    assert last is not None
    assert not list(check_support(row.version, last))
    (found,) = check_support(row.version, last.replace(year=last.year + 1))
    assert str(last) in found.got
    assert row.version not in found.allowed.split(", ")
    for year, ids in ((last.year - 1, []), (last.year + 1, ["GPU-EKS-082"])):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str((last.replace(year=year) - date(1970, 1, 1)).days * 86_400))
        findings = read_cluster("cluster.yaml", content=text(row.version).encode()).findings
        assert [one.id for one in findings if one.id == "GPU-EKS-082"] == ids
