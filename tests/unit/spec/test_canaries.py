"""`canary` of a fleet of model servers in the cluster file."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from cdk_gpu_clusters.kubernetes.canary import Canary
from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace
from cdk_gpu_clusters_stacks.spec import read_cluster
from cdk_gpu_clusters_stacks.spec.inference import CanarySpec

# A line for each key, so that a finding is known by its line.
FILE = """\
version: 1
name: lab
region: us-east-1
orchestrator: eks
network: { availability_zone: us-east-1a }
eks: { software: { argo_rollouts: true } }
monitoring: { metrics: { destination: workspace } }
inference:
  fleets:
    chat:
      instance_type: g6.xlarge
      nodes: 4
      canary:
        {}
      server:
        image: vllm/vllm-openai:v0.21.0
        command: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "16384"]
"""
CANARY = "        {}\n"
SCALED = "min_nodes: 2\n      max_nodes: 4"


def found(tmp_path: Path, text: str) -> list[str]:
    """Findings of a file as `line id severity`."""
    file = tmp_path / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    findings = read_cluster(file).findings
    return [f"{one.path.split(':')[-2]} {one.id} {one.severity.value}" for one in findings]


def test_defaults_are_those_of_the_library() -> None:
    workspace = PrometheusWorkspace(workspace_id="ws-0123abcd", region="us-east-1")
    assert CanarySpec().canary(workspace) == Canary(workspace=workspace)
    assert {one.name for one in fields(Canary)} - set(CanarySpec.model_fields) == {"workspace"}
    assert CanarySpec(errors_only=True).canary(workspace).max_first_token_percent is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        (CANARY, "        { weights: [1, 99], step_minutes: 1, max_error_percent: 0, spare_servers: 2 }\n"),
        ("nodes: 4", "nodes: 2"),
        ("nodes: 4", SCALED),
        ('["--model"', '["--disable-log-stats", "--model"'),
    ],
)
def test_a_canary_that_can_be_tried_is_taken(before: str, after: str, tmp_path: Path) -> None:
    text = FILE.replace(before, after) if before else FILE
    if "--disable-log-stats" in text:  # errors are counted without it
        text = text.replace(CANARY, "        { errors_only: true }\n")
    assert found(tmp_path, text) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("eks: { software: { argo_rollouts: true } }", "", ["13 GPU-SPEC-070 error"]),
        ("destination: workspace", "destination: cloudwatch", ["6 GPU-SRV-022 error"]),
        ("vllm/vllm-openai:v0.21.0", "ghcr.io/huggingface/text-generation-inference:3.0", ["16 GPU-SPEC-071 error"]),
        ('["--model"', '["--disable-log-stats", "--model"', ["17 GPU-SRV-033 error"]),
        ("nodes: 4", "nodes: 1", ["13 GPU-SRV-031 error"]),
        ("nodes: 4", "min_nodes: 0\n      max_nodes: 4", ["14 GPU-SRV-031 error"]),
        (CANARY, "        { spare_servers: 4 }\n", ["14 GPU-SRV-031 error"]),
        (CANARY, "        { spare_servers: -1 }\n", ["14 GPU-SRV-031 error"]),
        (CANARY, "        { weights: [] }\n", ["14 GPU-SRV-030 error"]),
        (CANARY, "        { weights: [50, 10] }\n", ["14 GPU-SRV-030 error"]),
        (CANARY, "        { max_first_token_percent: 99 }\n", ["14 GPU-SRV-032 error"]),
        (CANARY, "        { step_minutes: 0, max_error_percent: 100 }\n", ["14 GPU-SRV-032 error"] * 2),
        (CANARY, "        { steps: [10] }\n", ["14 GPU-SPEC-005 error"]),
        ("us-east-1a }", "us-east-1a, egress: closed }", ["5 GPU-SPEC-039 warning", "16 GPU-SPEC-029 error"]),
    ],
)
def test_a_canary_that_nothing_could_try_or_judge_is_refused_at_its_place(
    before: str, after: str, expected: list[str], tmp_path: Path
) -> None:
    told = found(tmp_path, FILE.replace(before, after))
    if "egress: closed" in after:
        expected = [*expected, "6 GPU-SRV-021 error"]
    assert sorted(told) == sorted(expected)


def test_elsewhere_a_canary_has_no_effect_and_the_file_is_built(tmp_path: Path) -> None:
    text = FILE.replace("orchestrator: eks", "orchestrator: ec2").replace(
        "      server:\n", "      load_balancer: { plain_http: true, clients: [10.0.0.0/8] }\n      server:\n"
    )
    told = found(tmp_path, text)
    assert "13 GPU-SPEC-070 warning" in told
    assert not [one for one in told if "error" in one]


def test_the_controller_alone_is_no_fault(tmp_path: Path) -> None:
    # It is there before the first canary comes, and after the last one has gone.
    assert found(tmp_path, FILE.replace("      canary:\n        {}\n", "")) == []
