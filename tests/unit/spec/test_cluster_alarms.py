"""`alarms` of a fleet in a cluster file: what it means, and its faults at their line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters import AlarmSettings
from cdk_gpu_clusters_stacks.spec import read_cluster
from cdk_gpu_clusters_stacks.spec.fleet import AlarmsSpec

HEAD = "version: 1\nname: demo\nregion: us-east-1\nnetwork: { availability_zone: us-east-1a }\n"
TRAINING = HEAD + "training:\n  fleets:\n    a: { instance_type: g6.xlarge, nodes: 1, alarms: { %s } }\n"
SERVER = "server: { image: vllm/vllm-openai:v0.11.0 }, load_balancer: { plain_http: true }"
INFERENCE = (
    HEAD + f"inference:\n  fleets:\n    a: {{ instance_type: g6.xlarge, nodes: 2, {SERVER}, alarms: {{ %s }} }}\n"
)
TOPIC = "arn:aws:sns:us-east-1:111122223333:ops"


def test_what_is_left_out_is_as_the_library_has_it() -> None:
    spec = AlarmsSpec()
    assert spec.settings == AlarmSettings()
    assert not spec.tells


def test_alarms_can_be_off_and_idle_time_alone_too() -> None:
    assert AlarmsSpec(enabled=False).settings is None
    assert AlarmsSpec(idle=False, suspends_launching=False).settings == AlarmSettings(
        idle_minutes=None, suspends_launching=False
    )


@pytest.mark.parametrize(
    "text",
    [
        f"topic_arn: '{TOPIC}'",
        "emails: [a@example.org, b@example.org]",
        "enabled: false",
        "idle_minutes: 5",
        "mute: {cron: '0 2 1,15 JAN-JUN *', minutes: 21600}",
        "mute: {cron: '0 2 * * SUN', minutes: 1, time_zone: America/Argentina/Ushuaia}",
    ],
)
@pytest.mark.parametrize("file", [TRAINING, INFERENCE], ids=["training", "inference"])
def test_right_alarms_have_no_findings(tmp_path: Path, file: str, text: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(file % text, encoding="utf-8")
    assert [str(one) for one in read_cluster(path).findings if one.severity.value == "error"] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("idle_minutes: 4", "7:70 GPU-SPEC-008"),
        ("idle_minutes: soon", "7:70 GPU-SPEC-007"),
        ("abandoned_launches_per_node: 0", "7:85 GPU-SPEC-008"),
        ("abandoned_within_minutes: 2000", "7:82 GPU-SPEC-008"),
        ("inspection_minutes: 2880", "7:76 GPU-ALM-001"),
        ("topic_arn: ops", "7:67 GPU-SPEC-008"),
        (f"topic_arn: '{TOPIC.replace('us-east-1', 'eu-west-1')}'", "7:67 GPU-SPEC-030"),
        ("emails: ops@example.org", "7:64 GPU-SPEC-007"),
        ("emails: [ops]", "7:65 GPU-ALM-002"),
        ("emails: [a@b.org, a@b.org]", "7:74 GPU-ALM-002"),
        ("enabled: false, emails: [a@b.org]", "7:65 GPU-SPEC-032"),
        ("unhealthy: true", "7:56 GPU-SPEC-005"),
        ("enabled: off", "7:65 GPU-SPEC-007"),
        ("mute: {cron: '0 2 * *', minutes: 5}", "7:69 GPU-SPEC-008"),
        ("mute: {cron: '0 2 * * 1-5/2', minutes: 5}", "7:69 GPU-SPEC-008"),
        ("mute: {cron: '0 2 * * SUN', minutes: 0}", "7:93 GPU-SPEC-008"),
        ("mute: {cron: '0 2 * * SUN', minutes: 5, time_zone: 'a b'}", "7:107 GPU-SPEC-008"),
        ("enabled: false, mute: {cron: '0 2 * * SUN', minutes: 5}", "7:65 GPU-SPEC-032"),
    ],
)
def test_faults_are_named_where_they_stand(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(TRAINING % text, encoding="utf-8")
    errors = [one for one in read_cluster(path).findings if one.severity.value == "error"]
    assert ", ".join(f"{one.path.removeprefix(f'{path}:')} {one.id}" for one in errors) == expected
    assert all(one.cause and one.fix for one in errors)


def test_a_longer_boot_of_an_inference_fleet_counts(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    text = INFERENCE.replace("nodes: 2", "nodes: 2, ready_timeout_seconds: 60") % "inspection_minutes: 120"
    path.write_text(text, encoding="utf-8")
    [error] = [one for one in read_cluster(path).findings if one.severity.value == "error"]
    assert (error.id, error.fix) == (
        "GPU-ALM-001",
        "lower inspection_minutes, or raise ready_timeout_seconds",
    )
