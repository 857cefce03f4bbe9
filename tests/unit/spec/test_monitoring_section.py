"""`monitoring` in a cluster file: what is right, and faults at their line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.spec import read_cluster

CLUSTER = """\
version: 1
name: demo
region: REGION
network: { availability_zone: REGIONa }
training: { fleets: { a: { instance_type: g6.xlarge, nodes: 1 } } }
monitoring: { %s }
"""
BRAKE = "budget: { usd_per_month: 5, emails: [a@b.org], brake:"
EXISTING = "vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0], availability_zone: REGIONa"
TOPIC = "arn:aws:sns:us-east-1:111122223333:costs"


def faults(folder: Path, text: str, region: str = "us-east-1") -> str:
    path = folder / "cluster.yaml"
    path.write_text((CLUSTER % text).replace("REGION", region), encoding="utf-8")
    errors = [one for one in read_cluster(path).findings if one.severity.value == "error"]
    assert all(one.cause and one.fix for one in errors)
    return ", ".join(f"{one.path.removeprefix(f'{path}:')} {one.id}" for one in errors)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dashboard: true",
        "budget: { usd_per_month: 1, emails: [a@example.org] }",
        f"budget: {{ usd_per_month: 0.5, topic_arn: '{TOPIC}', actual_percent: [], forecast_percent: [90.5] }}",
        "dashboard: false, budget: null",
        "budget: { usd_per_month: 5, emails: [a@b.org], brake: { fleets: [a], percent: 90.5 } }",
        "metrics: {}",
        "grafana: { authentication: [identity-center, saml] }",
        "metrics: { zone_id: Z0123456789ABCDEFGHIJ }",
        "metrics: { destination: workspace, retention_days: 1095, exporters: [dcgm, node] }",
        "metrics: { exporters: [dcgm, node], install_exporters: true }",
        "metrics: { install_exporters: false }",
    ],
)
def test_what_is_right_has_no_findings(tmp_path: Path, text: str) -> None:
    assert faults(tmp_path, text) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dashboard: big", "6:26 GPU-SPEC-007"),
        ("budget: { emails: [a@example.org] }", "6:15 GPU-SPEC-006"),
        ("budget: { usd_per_month: 0, emails: [a@example.org] }", "6:40 GPU-BUD-001"),
        ("budget: { usd_per_month: 5 }", "6:15 GPU-BUD-004"),
        (f"budget: {{ usd_per_month: 5, emails: [a@example.org], topic_arn: '{TOPIC}' }}", "6:43 GPU-BUD-004"),
        ("budget: { usd_per_month: 5, emails: [a, b@c.org, b@c.org] }", "6:52 GPU-ALM-002, 6:64 GPU-ALM-002"),
        (
            "budget: { usd_per_month: 5, emails: [a@b.org], actual_percent: [0, 80, 80], forecast_percent: [2, 2] }",
            "6:79 GPU-BUD-002, 6:86 GPU-BUD-002, 6:113 GPU-BUD-002",
        ),
        (
            f"budget: {{ usd_per_month: 5, topic_arn: '{TOPIC.replace('us-east-1', 'eu-west-1')}' }}",
            "6:54 GPU-SPEC-030",
        ),
        ("budgets: {}", "6:15 GPU-SPEC-005"),
        (f"{BRAKE} {{ fleets: [a, b, a], percent: 0 }} }}", "6:83 GPU-BUD-006, 6:86 GPU-BUD-006, 6:99 GPU-BUD-007"),
        (f"{BRAKE} {{ fleets: [] }} }}", "6:71 GPU-BUD-006"),
        (f"{BRAKE} {{ percent: 5 }} }}", "6:62 GPU-SPEC-006"),
        ("metrics: { destination: grafana }", "6:39 GPU-SPEC-008"),
        ("metrics: { exporters: [gpunode] }", "6:38 GPU-SPEC-008"),
        ("metrics: { install_exporters: true }", "6:45 GPU-UD-011"),
        ("metrics: { zone_id: zone }", "6:35 GPU-SPEC-008"),
        ("grafana: {}", "6:15 GPU-SPEC-006"),
        ("grafana: { authentication: [] }", "6:26 GPU-GRF-001"),
        ("grafana: { authentication: [saml, saml] }", "6:26 GPU-GRF-001"),
        ("grafana: { authentication: [password] }", "6:43 GPU-SPEC-008"),
        ("metrics: { retention_days: 30 }", "6:42 GPU-AMP-001"),
        ("metrics: { destination: workspace, retention_days: 1096 }", "6:66 GPU-AMP-001"),
    ],
)
def test_faults_are_named_where_they_stand(tmp_path: Path, text: str, expected: str) -> None:
    assert faults(tmp_path, text) == expected


def test_a_region_without_budgets_is_named_with_what_works(tmp_path: Path) -> None:
    text = "budget: { usd_per_month: 5, emails: [a@b.org] }"
    assert faults(tmp_path, text, "eu-north-1") == "6:15 GPU-BUD-003"


@pytest.mark.parametrize(
    ("fleet", "orchestrator", "expected"),
    [
        ("capacity: spot", "ec2", ""),
        ("capacity: { capacity_block: cr-0123456789abcdef0, ends_at: 2036-12-15T11:30Z }", "ec2", "GPU-BUD-005"),
        ("capacity: { new_reservation: { unlimited: true } }", "ec2", "GPU-BUD-005"),
        ("capacity: spot", "eks", "GPU-BUD-006"),
        ("capacity: spot", "pcs", "GPU-BUD-006"),
    ],
)
def test_a_brake_stops_only_what_is_paid_by_the_hour_on_ec2(
    tmp_path: Path, fleet: str, orchestrator: str, expected: str
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(
        f"version: 1\nname: demo\nregion: us-east-1\norchestrator: {orchestrator}\n"
        "network: { availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }\n"
        f"training: {{ fleets: {{ work: {{ instance_type: p5.48xlarge, nodes: 2, {fleet} }} }} }}\n"
        f"monitoring: {{ {BRAKE} {{ fleets: [work] }} }} }}\n",
        encoding="utf-8",
    )
    errors = [one for one in read_cluster(path).findings if one.severity.value == "error"]
    assert [one.id for one in errors] == ([expected] if expected else [])


@pytest.mark.parametrize(("usd", "warns"), [(587.5, True), (588, False)])
def test_a_budget_that_the_nodes_exceed_is_a_warning(tmp_path: Path, usd: float, warns: bool) -> None:
    """A g6.xlarge costs 0.8048 USD an hour on demand, and 587.504 USD for 730 hours."""
    path = tmp_path / "cluster.yaml"
    text = CLUSTER % f"budget: {{ usd_per_month: {usd}, emails: [a@b.org] }}"
    path.write_text(text.replace("REGION", "us-east-1"), encoding="utf-8")
    assert [one.id for one in read_cluster(path).findings if one.id.startswith("GPU-BUD")] == ["GPU-BUD-008"] * warns


@pytest.mark.parametrize("capacity", ["spot", "{ capacity_block: cr-0123456789abcdef0, ends_at: 2027-01-12T11:30Z }"])
def test_what_is_paid_before_use_or_at_a_changing_price_is_not_counted(tmp_path: Path, capacity: str) -> None:
    path = tmp_path / "cluster.yaml"
    text = CLUSTER.replace("g6.xlarge, nodes: 1", f"p5.48xlarge, nodes: 1, capacity: {capacity}")
    path.write_text(
        (text % "budget: { usd_per_month: 1, emails: [a@b.org] }").replace("REGION", "us-east-1"), encoding="utf-8"
    )
    assert [one.id for one in read_cluster(path).findings if one.id.startswith("GPU-BUD")] == []


@pytest.mark.parametrize(
    ("change", "into", "expected"),
    [
        ("nodes: 1", "nodes: 200", ""),
        ("nodes: 1", "nodes: 201", "6:15 GPU-SCR-006"),
        ("nodes: 1", "nodes: 1, watch: { mode: dry-run }", ""),
        ("nodes: 1", 'nodes: 1, watch: { mode: "off" }', "6:15 GPU-SCR-002"),
        ("nodes: 1 }", 'nodes: 1 }, b: { instance_type: g6.xlarge, nodes: 300, watch: { mode: "off" } }', ""),
        ("version: 1", "version: 1\norchestrator: eks", ""),
        ("version: 1", "version: 1\norchestrator: pcs", ""),
        ("{ a: {", "{ slurm: {", ""),
        (
            "a: { instance_type: g6.xlarge, nodes: 1 } } }",
            "slurm: { instance_type: g6.xlarge, nodes: 1 } } }\norchestrator: pcs",
            "7:15 GPU-SCR-006",
        ),
        ("nodes: 1 } } }", 'nodes: 1, watch: { mode: "off" } } } }\norchestrator: pcs', "7:15 GPU-SCR-007"),
        ("version: 1", 'version: 1\norchestrator: pcs\npcs: { slurm_version: "26.05", metrics: true }', ""),
        ("REGIONa }", f"REGIONa, control_availability_zones: [{', '.join(f'REGION{one}' for one in 'abcdef')}] }}", ""),
        (
            "availability_zone: REGIONa",
            EXISTING,
            "6:15 GPU-SCR-004",
        ),
        (
            "availability_zone: REGIONa",
            f"{EXISTING}, service_subnets: {{ REGIONa: subnet-0123456789abcdef1, REGIONb: subnet-0123456789abcdef2 }}",
            "",
        ),
    ],
)
def test_a_collector_reads_groups_with_a_watchdog_from_two_zones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, into: str, expected: str
) -> None:
    assert change in CLUSTER
    text = CLUSTER.replace(change, into, 1).replace("{ a: {", "{ dev: {")  # AWS PCS takes three characters and more
    monkeypatch.setattr(f"{__name__}.CLUSTER", text)
    assert faults(tmp_path, "metrics: {}") == expected


def test_a_region_without_collectors_is_named(tmp_path: Path) -> None:
    assert faults(tmp_path, "metrics: {}", "us-gov-west-1") == "6:15 GPU-SCR-005"


def test_a_zone_has_no_effect_on_eks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.CLUSTER", CLUSTER.replace("version: 1", "version: 1\norchestrator: eks"))
    assert faults(tmp_path, "metrics: { zone_id: Z0123456789ABCDEFGHIJ }") == "7:35 GPU-SCR-010"


def test_a_region_without_grafana_is_named(tmp_path: Path) -> None:
    assert faults(tmp_path, "grafana: { authentication: [saml] }", "us-west-1") == "6:15 GPU-GRF-002"
