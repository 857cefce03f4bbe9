"""A real Prometheus reads a node's `/metrics`, and raises and clears an alert."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import paths
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.health import Health, HealthServer
from cdk_gpu_clusters.node.gpunode.metrics.exposition import Reading, exposition, keep_readings
from cdk_gpu_clusters.node.gpunode.metrics.names import LUSTRE_READ, METRICS, UNHEALTHY_NODES
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from cdk_gpu_clusters.observability.prometheus_rules import prometheus_rules
from cdk_gpu_clusters.rules.scrape import JOB
from prometheus_server import Server, eventually, running

FLEET, INSTANCE = 'app/"Train\\ers"', "i-0123456789abcdef0"
NODE = Node(Settings({"fleet": FLEET}), Metadata(), INSTANCE, Aws("us-east-2"))
#: A value for each metric of a measurement.
VALUES = {metric: [Reading(number + 0.5, "0")] for number, metric in enumerate(METRICS) if metric.per != "event"}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    return tmp_path


@pytest.fixture
def server(prometheus: str, tmp_path: Path) -> Iterator[Server]:
    keep_readings(VALUES)
    node = HealthServer(lambda: Health("ok", Severity.OK), metrics=lambda: exposition(NODE))
    target = node.listen("127.0.0.1", 0, page=b"/metrics")
    threading.Thread(target=node.serve, daemon=True).start()
    (tmp_path / "rules.yaml").write_text(prometheus_rules())
    config = {
        "global": {"scrape_interval": "3s", "scrape_timeout": "3s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": JOB, "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}],
    }
    with running(prometheus, tmp_path, config) as made:
        eventually(lambda: made.values("up == 1"))
        yield made


def test_prometheus_reads_every_metric_with_its_labels(server: Server) -> None:
    for metric, (value,) in VALUES.items():
        (found,) = server.values(metric.prometheus_name)
        assert float(found["value"][1]) == value
        assert found["metric"]["fleet"] == FLEET
        assert found["metric"]["instance_id"] == INSTANCE
        own = set(found["metric"]) - {"__name__", "fleet", "instance_id", "instance", "job"}
        assert len(own) == (0 if metric.per == "node" else 1)
    for metric in set(METRICS) - set(VALUES):
        (found,) = server.values(metric.prometheus_name)
        assert float(found["value"][1]) == 0
    eventually(lambda: [one["lastError"] for one in server.ask("targets")["activeTargets"]] == [""])
    (kinds,) = server.ask("metadata", metric="gpu_cluster_xids_total")["gpu_cluster_xids_total"]
    assert kinds["type"] == "counter"


def test_an_alert_is_raised_and_clears(server: Server) -> None:
    # Its value above is not 0.
    eventually(lambda: "UnhealthyNode" in server.raised())
    keep_readings({UNHEALTHY_NODES: [Reading(0, "")], LUSTRE_READ: [Reading(7, "a"), Reading(8, "b")]})
    eventually(lambda: "UnhealthyNode" not in server.raised())
    eventually(lambda: [one["value"][1] for one in server.values(f"fleet:{LUSTRE_READ.prometheus_name}:sum")] == ["15"])


def test_old_values_end(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.values("gpu_cluster_idle_seconds")
    later = paths.uptime_seconds() + 200
    monkeypatch.setattr(paths, "uptime_seconds", lambda: later)
    eventually(lambda: not server.values("gpu_cluster_idle_seconds"))
    eventually(lambda: server.values("up == 1"))


def test_the_text_has_no_fault(promtool: str) -> None:
    keep_readings(VALUES)
    done = subprocess.run(
        [promtool, "check", "metrics"], input=exposition(NODE), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
