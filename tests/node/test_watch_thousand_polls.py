"""A thousand polls of the real watchdog over the real checks of a node with eight GPUs, EFA and Lustre.

Only the ends are fakes: programs that answer as the real ones, files of the kernel, and the account. It needs no root,
and is here for the time that thousands of programs take.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue.xids import node_xids
from cdk_gpu_clusters.node.gpunode.checks.verify import checks_of, verify
from cdk_gpu_clusters.node.gpunode.watch import service
from cdk_gpu_clusters.node.gpunode.watch.kernel import read_xids
from cdk_gpu_clusters.node.gpunode.watch.probes import probes_of
from fakes import gpu_health
from watched_node import WatchedNode

SETTINGS = {
    "accelerator_count": "8",
    "model": "H100",
    "min_driver": "525.85.12",
    "nvlink": "900",
    "efa_count": "2",
    "mounts": "1",
}
LOOKS = {
    *("gpus", "ecc", "row-remapping", "clocks", "sram", "recovery", "nvlink", "fabric", "efa", "lustre"),
    *("boot", "disk", "nvidia-smi", "efa-counters", "lustre-client"),
}
OFF_THE_BUS = "NVRM: Xid (PCI:0000:10:1c): 79, pid=1896, GPU has fallen off the bus."
FABRIC_MANAGER = "LoadState=loaded\nUnitFileState=enabled\nActiveState=active\nConditionResult=yes"
DOMAINS = "\n".join(f"provider: efa\n    domain: rdmap{number}s0-rdm" for number in range(2))
HEALTHY: dict[str, Any] = {"recovery": "None"}


class Node(WatchedNode):
    """A healthy node."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.says("systemctl", FABRIC_MANAGER)
        self.says("fi_info", DOMAINS)
        (self.root / "fsx").mkdir()
        for device in ("rdmap0s0", "rdmap1s0"):
            self.efa_counter(device, "rx_drops", 0)
        self.write("etc/gpu-cluster/mounts", "/fsx fs-0.fsx.us-east-2.amazonaws.com abcd flock\n")
        self.write("proc/mounts", f"10.0.0.9@tcp:/abcd {self.root}/fsx lustre rw 0 0\n")
        self.write("sys/fs/lustre/health_check", "healthy\n")
        self.gpus(*[HEALTHY] * 8)

    def says(self, program: str, text: str) -> None:
        """A program that always says the same."""
        self.tool(program, f"#!/bin/sh\necho {shlex.quote(text)}\n")

    def gpus(self, *gpus: dict[str, Any]) -> None:
        """GPUs behind an nvidia-smi that has learned what another one answers, and repeats it in no time."""
        gpu_health.install(self.tools, {"gpus": gpus})
        slow = (self.tools / "nvidia-smi").rename(self.tools / "slow")
        asked = self.write("asked", "-L\n")
        self.tool("nvidia-smi", f'#!/bin/sh\necho "$*" >>{asked}\nexec {slow} "$@"\n')
        node = self.node(**SETTINGS)
        verify(node, checks_of(node))
        cases = [f"{shlex.quote(line)}) {_repeat(slow, line)} ;;" for line in set(asked.read_text().splitlines())]
        self.tool("nvidia-smi", "\n".join(["#!/bin/sh", 'case "$*" in', *cases, "*) exit 99 ;;", "esac", ""]))


def _repeat(program: Path, line: str) -> str:
    done = subprocess.run([program, *shlex.split(line)], check=False, capture_output=True, text=True)
    return f"printf %s {shlex.quote(done.stdout)}; exit {done.returncode}"


def write_table(folder: Path) -> Path:
    """The table of Xids that travels with the package."""
    file = folder / "xids.json"
    file.write_text(node_xids())
    return file


@pytest.mark.parametrize(
    ("plant", "actions"),
    [
        (lambda _: None, 0),
        (lambda node: node.kernel_says(OFF_THE_BUS), 1),
        (lambda node: node.gpus(*[HEALTHY] * 7, {**HEALTHY, "lost": True}), 1),
    ],
    ids=["healthy", "xid", "lost-gpu"],
)
def test_a_thousand_polls_of_everything_act_once_for_one_fault_and_never_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[Node], object], actions: int
) -> None:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    table = read_xids(write_table(tmp_path))
    monkeypatch.setattr(service, "read_xids", lambda: table)
    node = Node(tmp_path)
    mine = node.node(**SETTINGS)
    assert {look.name for look in probes_of(mine, checks_of(mine))} == LOOKS
    node.begin(checks_of(mine), **SETTINGS)
    for number in range(1, 1001):
        if number == 501:
            assert (node.actions, node.told.all) == (0, [])
            plant(node)
        node.kernel_says(f"eth0: link is up, for the {number}. time")
        node.efa_counter("rdmap0s0", "rx_drops", number)
        node.poll()
    assert node.actions == actions
    assert len(node.account.bundles) == actions
    assert [state for state, _ in node.told.of("action")] == ["ok"] * actions
