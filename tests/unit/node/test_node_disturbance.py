"""The node software beside a job: the programs that it starts, and the processors that it uses."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import cores, nvml, shipping
from cdk_gpu_clusters.node.gpunode.checks.verify import checks_of
from cdk_gpu_clusters.node.gpunode.metrics import collect
from cdk_gpu_clusters.node.gpunode.metrics.names import GPU_UTILIZATION
from cdk_gpu_clusters.node.gpunode.nvml import session
from fakes.nvml_library import node_of
from watched_node import WatchedNode

SETTINGS = {
    "accelerator": "gpu",
    "accelerator_count": "8",
    "nvlink": "900",
    "efa_count": "2",
    "mounts": "1",
    "model": "H100",
}
_POLLS_OF_AN_HOUR = 360


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every program that this process starts."""
    programs: list[str] = []
    start = subprocess.Popen.__init__

    def note(self: Any, arguments: Any, *rest: Any, **more: Any) -> None:
        programs.append(Path(arguments[0]).name)
        start(self, arguments, *rest, **more)

    monkeypatch.setattr(subprocess.Popen, "__init__", note)
    return programs


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedNode]:
    """A healthy node of eight GPUs, EFA and Lustre, with NVML."""
    node = WatchedNode(tmp_path)
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(node.root))
    monkeypatch.setenv("PATH", str(node.tools))
    for device in ("rdmap0s0", "rdmap1s0"):
        node.efa_counter(device, "rx_drops", 0)
    (node.root / "fsx").mkdir()
    node.write("etc/gpu-cluster/mounts", "/fsx fs-0.fsx.us-east-2.amazonaws.com abcd flock\n")
    node.write("proc/mounts", f"10.0.0.9@tcp:/abcd {node.root}/fsx lustre rw 0 0\n")
    node.write("sys/fs/lustre/health_check", "healthy\n")
    node.write("sys/fs/cgroup/system.slice/nvidia-fabricmanager.service/cgroup.procs", "4711\n")
    stats = "snapshot_time 1 secs.nsecs\nread_bytes 3 samples [bytes] 4096 1048576 {}\n"
    node.write("sys/kernel/debug/lustre/llite/abcd-ffff/stats", stats.format(7_000_000))
    library = node_of(*[{} for _ in range(8)])
    nvml.enable(session.Session(library.load, idle_seconds=0.01))
    yield node
    nvml.disable()


def test_an_hour_of_a_healthy_watch_starts_no_program(node: WatchedNode, started: list[str]) -> None:
    node.begin(checks_of(node.node(**SETTINGS)), **SETTINGS)
    node.poll(_POLLS_OF_AN_HOUR)
    assert node.told.all == []
    assert started == []


def test_measurements_start_no_program(node: WatchedNode, started: list[str]) -> None:
    found = collect.measure_gpus()
    assert len(found[GPU_UTILIZATION]) == 8
    assert collect.lustre_counters() == {"LustreReadBytesPerSecond llite.abcd-ffff.stats": 7_000_000}
    assert started == []


def test_journal_is_read_only_after_a_unit_has_run(node: WatchedNode, started: list[str]) -> None:
    node.tool("journalctl", "#!/bin/sh\n")
    node.write("var/lib/gpu-cluster/mig.json", "{}")
    for _ in range(10):
        shipping.collect_journal()
    # The second time for lines that came after the result.
    assert started == ["journalctl"] * 2
    os.utime(node.root / "var/lib/gpu-cluster/mig.json", (1, 1))
    for _ in range(10):
        shipping.collect_journal()
    assert started == ["journalctl"] * 4


@pytest.mark.parametrize(
    ("count", "allowed", "chosen"),
    [(192, set(range(192)), [{191}]), (192, {0, 1}, []), (1, {0}, []), (None, {0, 1}, [])],
    ids=["all", "chosen by somebody", "only one", "unknown"],
)
def test_the_last_processor_is_used(
    monkeypatch: pytest.MonkeyPatch, count: int | None, allowed: set[int], chosen: list[set[int]]
) -> None:
    found = list[set[int]]()
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed)
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: found.append(cpus))
    cores.keep_off_job_cores()
    assert found == chosen


@pytest.mark.parametrize("unit", ["gpu-node-ship", "gpu-node-watch"])
def test_systemd_sends_no_signal_to_clients_of_the_driver(unit: str) -> None:
    text = (Path(shipping.__file__).parents[1] / f"files/{unit}.service").read_text()
    assert {"KillMode=process", "SendSIGKILL=no"} <= set(text.splitlines())
    assert [line for line in text.splitlines() if line.startswith("ExecStart")] == [
        f"ExecStart=/usr/local/bin/gpunode {'ship --measure' if unit.endswith('ship') else 'watch'}"
    ]
