"""The section `parallelcluster` of a cluster file; `fixtures/wrong_files/parallelcluster.yaml` has its other mistakes."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters_stacks.spec import read_cluster

_HEAD = "version: 1\nname: lab\nregion: us-east-1\nnetwork: { availability_zone: us-east-1a }\n"
_FLEETS = "training: { fleets: { trainers: { instance_type: p5.48xlarge, nodes: 2, capacity: spot } } }\n"
_WORD = "orchestrator: parallelcluster\n"
_BUDGET = "budget: { usd_per_month: 100000, emails: [a@example.org]"


def found(more: str, word: str = _WORD) -> list[tuple[str, str, str]]:
    reading = read_cluster("cluster.yaml", content=f"{_HEAD}{word}{more}{_FLEETS}".encode())
    told = [one for one in reading.findings if one.severity.value != "info"]
    return [(one.id, one.severity.value, one.cause.partition(":")[0]) for one in told]


def test_the_section_says_nothing_of_another_orchestrator() -> None:
    section = "parallelcluster: { login: { nodes: 1 } }\n"
    assert found(section) == []
    assert found(section, "orchestrator: pcs\n") == [("GPU-SPEC-093", "warning", "parallelcluster")]


@pytest.mark.parametrize("node", ["head_node", "login"])
def test_nobody_computes_on_head_and_login_nodes(node: str) -> None:
    section = f"parallelcluster: {{ {node}: {{ instance_type: g6.xlarge }} }}\n"
    assert found(section) == [("GPU-SPEC-094", "error", f"parallelcluster.{node}.instance_type")]
    assert found(section.replace("g6", "m7i")) == []


@pytest.mark.parametrize(
    ("part", "key"),
    [
        ("dashboard: true", "monitoring.dashboard"),
        ("metrics: {}", "monitoring.metrics"),
        (f"{_BUDGET}, brake: {{ fleets: [trainers] }} }}", "monitoring.budget.brake"),
    ],
)
def test_what_reads_or_stops_nodes_is_for_nodes_of_a_deployment(part: str, key: str) -> None:
    assert found(f"monitoring: {{ {part} }}\n") == [("GPU-SPEC-095", "error", key)]
    assert found(f"monitoring: {{ {_BUDGET} }} }}\n") == []
