"""`/metrics`: what the node measured, for Prometheus."""

from __future__ import annotations

import http.client
import threading
import time
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import paths
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.events import Events
from cdk_gpu_clusters.node.gpunode.health import Health, HealthServer
from cdk_gpu_clusters.node.gpunode.metrics.exposition import Reading, exposition, keep_readings
from cdk_gpu_clusters.node.gpunode.metrics.names import GPU_MEMORY_USED, IDLE_SECONDS, LUSTRE_READ, METRICS
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings

NODE = Node(Settings({"fleet": 'A/"b"'}), Metadata(), "i-1", Aws("us-east-2"))
WHOSE = r'fleet="A/\"b\"",instance_id="i-1"'


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    return tmp_path


def test_values_carry_their_gpu_and_mount() -> None:
    keep_readings({GPU_MEMORY_USED: [Reading(5, "7")], LUSTRE_READ: [Reading(2, "fs\\1")], IDLE_SECONDS: [60]})
    lines = exposition(NODE).splitlines()
    assert f'gpu_cluster_gpu_memory_used_bytes{{{WHOSE},gpu="7"}} 5.0' in lines
    assert f'gpu_cluster_lustre_read_bytes_per_second{{{WHOSE},mount="fs\\\\1"}} 2.0' in lines
    assert f"gpu_cluster_idle_seconds{{{WHOSE}}} 60.0" in lines
    assert "# TYPE gpu_cluster_gpu_memory_used_bytes gauge" in lines


@pytest.mark.parametrize(("age", "is_there"), [(179, True), (181, False)])
def test_values_older_than_three_minutes_are_left_out(
    monkeypatch: pytest.MonkeyPatch, age: float, is_there: bool
) -> None:
    monkeypatch.setattr(paths, "uptime_seconds", lambda: 1_000.0)
    keep_readings({IDLE_SECONDS: [60]})
    monkeypatch.setattr(paths, "uptime_seconds", lambda: 1_000.0 + age)
    text = exposition(NODE)
    assert ("gpu_cluster_idle_seconds{" in text) is is_there
    assert ("gpu_cluster_measured_timestamp_seconds{" in text) is is_there


def test_events_are_counted_since_the_boot() -> None:
    assert f"gpu_cluster_xids_total{{{WHOSE}}} 0.0" in exposition(NODE)
    for severity in ("reset", "replace", "monitor"):
        Events("i-1").write("watch", "seen", "Xid", symptom="xid-79", severity=severity)
    text = exposition(NODE)
    assert f"gpu_cluster_xids_total{{{WHOSE}}} 2.0" in text
    assert "# TYPE gpu_cluster_xids_total counter" in text


def test_names_are_those_of_counters_for_events_only() -> None:
    for metric in METRICS:
        assert metric.prometheus_name.endswith("_total") is (metric.per == "event")


def test_a_long_answer_arrives_whole_at_its_own_port_only() -> None:
    text = "x" * 3_000_000
    server = HealthServer(lambda: Health("ok", Severity.OK), metrics=lambda: text)
    metrics_port, health_port = server.listen("127.0.0.1", 0, (), b"/metrics"), server.listen("127.0.0.1", 0)
    threading.Thread(target=server.serve, daemon=True).start()

    def ask(port: int, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", path)
        time.sleep(0.2)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found

    assert ask(metrics_port, "/metrics") == (200, text)
    assert ask(metrics_port, "/healthz")[0] == 404
    assert ask(health_port, "/metrics")[0] == 404
    assert ask(health_port, "/healthz")[0] == 200
