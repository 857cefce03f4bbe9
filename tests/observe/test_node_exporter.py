"""Debian's node exporter with the arguments of a node, scraped by a real Prometheus with our configuration."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

import cdk_gpu_clusters.node
from cdk_gpu_clusters import Exporter, scrape_configuration
from efa_sysfs import add_device
from prometheus_server import Server, eventually, running

DROP_IN = Path(cdk_gpu_clusters.node.__file__).parent / "files/node-exporter.conf"
FAILED = 'node_scrape_collector_success{job="node"} == 0'


@pytest.fixture
def efa_node(tmp_path: Path) -> Path:
    """The sysfs of a node with an EFA device, whose counters are in `hw_counters` alone (Linux, hw/efa/efa_verbs.c)."""
    port = add_device(tmp_path, "rdmap16s27") / "ports/1"
    (port / "hw_counters").mkdir(parents=True)
    (port / "hw_counters/tx_bytes").write_text("1234\n")
    for name, text in (("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"), ("rate", "100 Gb/sec (4X EDR)")):
        (port / name).write_text(f"{text}\n")
    (port / "../../fw_ver").resolve().write_text("0.0.0.0\n")
    return tmp_path / "sys"


@contextmanager
def scraped(node_exporter: str, prometheus: str, sysfs: Path, folder: Path, *options: str) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    configuration = yaml.safe_load(
        scrape_configuration(
            Exporter.NODE.at(addresses=["127.0.0.1"], port=port, labels={"fleet": "App/Trainers"}),
            interval_seconds=30,
        )
    )
    # Its first scrape comes within an interval.
    configuration["global"]["scrape_interval"] = "2s"
    configuration["global"]["scrape_timeout"] = "2s"
    command = [node_exporter, f"--web.listen-address=127.0.0.1:{port}", f"--path.sysfs={sysfs}", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with running(prometheus, folder, configuration) as server:
                eventually(lambda: server.values('up{job="node"} == 1'))
                yield server
        finally:
            process.kill()


def test_prometheus_reads_the_node_exporter_of_an_efa_node(
    node_exporter: str, prometheus: str, efa_node: Path, tmp_path: Path
) -> None:
    (arguments,) = re.findall(r"^Environment=ARGS=(.*)$", DROP_IN.read_text(), re.MULTILINE)
    with scraped(node_exporter, prometheus, efa_node, tmp_path, *arguments.split()) as server:
        (memory,) = server.values("node_memory_MemTotal_bytes")
        assert memory["metric"]["fleet"] == "App/Trainers"
        assert float(memory["value"][1]) > 0
        assert "infiniband" not in {one["metric"]["collector"] for one in server.values(FAILED)}


def test_its_collector_of_infiniband_fails_on_efa(
    node_exporter: str, prometheus: str, efa_node: Path, tmp_path: Path
) -> None:
    with scraped(node_exporter, prometheus, efa_node, tmp_path) as server:
        assert "infiniband" in {one["metric"]["collector"] for one in server.values(FAILED)}
        assert not server.values('{__name__=~"node_infiniband_.*"}')
