"""`orchestrator: batch` and the section `batch` of the cluster file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.spec import load_cluster, read_cluster

HEAD = "version: 1\nname: demo\nregion: us-east-1\norchestrator: batch\n"
NET = "network: { availability_zone: us-east-1a }\n"
BLOCK = "{ capacity_block: cr-0123456789abcdef0, starts_at: 2026-12-01T11:30Z, ends_at: 2026-12-15T11:30Z }"
FLEET = "training: {{ fleets: {{ gpu-one: {{ instance_type: p5.48xlarge, nodes: 2, capacity: {} }} }} }}\n"
RESERVED = FLEET.format("{ reservation: cr-0123456789abcdef0 }")


def found(tmp_path: Path, text: str) -> list[str]:
    """Ids of the errors and warnings of a file, with their severity."""
    file = tmp_path / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    findings = read_cluster(file).findings
    return [f"{one.id} {one.severity.value}" for one in findings if one.severity.value != "info"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD.replace("batch", "ec2") + NET + "batch: { blocked_minutes: 60 }\n" + RESERVED, "GPU-SPEC-084 warning"),
        (HEAD + NET + "batch: { jobs: { gpu-two: {} } }\n" + RESERVED, "GPU-SPEC-086 error"),
        (HEAD + NET + RESERVED.replace("nodes: 2", "nodes: 2, metadata_users: [ubuntu]"), "GPU-SPEC-087 warning"),
        (
            HEAD + NET + "inference: { fleets: { chat: { instance_type: g6.xlarge, nodes: 1, server: { image: a:1 }, "
            "load_balancer: { plain_http: true, clients: [10.0.0.0/16] } } } }\n" + RESERVED,
            "GPU-SPEC-085 error",
        ),
    ],
)
def test_what_does_not_go_with_batch(text: str, expected: str, tmp_path: Path) -> None:
    assert found(tmp_path, text) == [expected]


@pytest.mark.parametrize(
    ("capacity", "section", "minutes"),
    [
        (BLOCK, "", None),
        (BLOCK, "batch: { blocked_minutes: 60 }\n", 60),
        ("{ reservation: cr-0123456789abcdef0 }", "", 1440),
    ],
)
def test_a_job_waits_for_a_block_without_end(capacity: str, section: str, minutes: int | None, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + NET + section + FLEET.format(capacity), encoding="utf-8")
    environment = plan_cluster(load_cluster(file)).fleets[0].compute_environment
    assert environment is not None
    assert environment.blocked_minutes == minutes


def test_run_names_the_command_that_submits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + NET + RESERVED, encoding="utf-8")
    assert main(["run", "gpu-one", "--cluster-file", str(file), "--", "true"]) == 2
    assert "output SubmitCommand of the stack demo-fleet-gpu-one" in capsys.readouterr().err
