"""Faults of what the watchdog itself relies on: it neither stops, nor replaces a healthy node, nor misses a fault.

docs/reliability.md lists them.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import paths
from cdk_gpu_clusters.node.gpunode.checks.check import Result, Severity
from cdk_gpu_clusters.node.gpunode.watch import kernel, probes, service, watch
from cdk_gpu_clusters.node.gpunode.watch.kernel import XidTable
from watched_node import INSTANCE, WatchedNode

OFF_THE_BUS = "NVRM: Xid (PCI:0000:10:1c): 79, pid=1896, GPU has fallen off the bus."


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedNode:
    monkeypatch.setattr(service, "read_xids", lambda: XidTable({"79": {"class": "replace"}}))
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    return WatchedNode(tmp_path)


def take_no_files(node: WatchedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state folder cannot be written: a file lies where it should be."""
    node.write("var/lib/gpu-cluster", "")


def run_full(node: WatchedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write to the disk fails."""

    def full() -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(paths, "state_folder", full)
    monkeypatch.setattr(probes, "_LEAST_FREE_BYTES", 2**80)


@pytest.mark.parametrize("spoil", [take_no_files, run_full], ids=["read-only", "full"])
def test_disk_that_takes_nothing_replaces_no_node_and_holds_no_action_back(
    node: WatchedNode, monkeypatch: pytest.MonkeyPatch, spoil: Callable[..., None]
) -> None:
    spoil(node, monkeypatch)
    node.begin({})
    node.poll(12)
    assert node.actions == 0
    node.kernel_says(OFF_THE_BUS)
    node.poll()
    assert (node.actions, len(node.account.bundles)) == (1, 1)


@pytest.mark.parametrize("jump", [10**9, -(10**9), 3600, -3600])
def test_clock_that_jumps_replaces_no_node_and_hides_no_fault(
    node: WatchedNode, monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    node.efa_counter("rdmap0s1", "rx_drops", 0)
    node.begin({}, efa_count="1")
    node.poll(3)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + jump)
    node.efa_counter("rdmap0s1", "rx_drops", 50)
    node.poll(12)
    assert (node.actions, node.told.all) == (0, [])
    node.kernel_says(OFF_THE_BUS)
    node.poll(3)
    assert node.actions == 1


def test_kernel_log_that_cannot_be_read_leaves_the_other_looks(node: WatchedNode) -> None:
    log = node.root / "dev/kmsg"
    log.rename(node.root / "dev/other")
    node.begin({"row-remapping": lambda _: [Result("row-remapping", Severity.REPLACE, "a row could not be remapped")]})
    node.poll(4)
    assert node.told.symptoms() == ["log", "row-remapping-replace"]
    assert node.actions == 1
    (node.root / "dev/other").rename(log)
    node.poll()
    assert node.told.symptoms("gone") == ["log"]


def test_messages_that_were_overwritten_are_told(node: WatchedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [OSError(errno.EPIPE, "Broken pipe")]
    read = os.read

    def ring(file: int, size: int) -> bytes:
        if faults and size == kernel._READ_BYTES:
            raise faults.pop()
        return read(file, size)

    node.begin({})
    monkeypatch.setattr(os, "read", ring)
    node.kernel_says(OFF_THE_BUS)
    node.poll()
    assert node.told.symptoms() == ["xid-79-0000:10:1c", "log-overwritten"]
    assert node.actions == 1


def test_disk_or_journal_that_hangs_stops_neither_the_loop_nor_the_action(
    node: WatchedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    write = node.told.write

    def hang(*words: Any, **more: Any) -> dict[str, Any]:
        gate.wait()
        return write(*words, **more)

    monkeypatch.setattr(node.told, "write", hang)
    node.patience_seconds = 0.5
    node.begin({})
    node.kernel_says(OFF_THE_BUS)
    while not node.actions:
        node.poll()
    node.kernel_says(*[f"NVRM: Xid (PCI:0000:{number:02x}:00): 13, again" for number in range(200)] * 6)
    node.poll(2)
    assert (node.actions, node.told.all) == (1, [])
    gate.set()
    node.patience_seconds = 60
    while not node.told.of("action"):
        node.poll()
    assert [state for state, _ in node.told.of("action")] == ["ok"]


def test_look_that_hangs_for_ever_stops_neither_the_loop_nor_the_action(node: WatchedNode) -> None:
    gate = threading.Event()

    def hang(_: object) -> Sequence[Any]:
        gate.wait()
        return []

    node.patience_seconds = 0.5
    node.begin({"gpus": hang})
    node.poll()
    node.kernel_says(OFF_THE_BUS)
    while not node.told.of("action"):
        node.watch.poll()
    assert node.actions == 1
    node.clock.now += watch._LATE_SECONDS
    node.poll()
    assert "late-gpus" in node.told.symptoms()
    gate.set()


def test_look_that_breaks_is_told_and_the_others_go_on(node: WatchedNode) -> None:
    def broken(_: object) -> Sequence[Any]:
        raise ZeroDivisionError("division by zero")

    node.begin({"gpus": broken})
    node.poll(12)
    assert node.told.symptoms() == ["broken-gpus"]
    assert node.actions == 0
    node.kernel_says(OFF_THE_BUS)
    node.poll()
    assert node.actions == 1


def test_api_that_refuses_is_asked_with_every_poll_until_it_works(node: WatchedNode) -> None:
    node.account.denied.update({"describe-auto-scaling-instances": 2, "set-instance-health": 3})
    node.begin({})
    node.kernel_says(OFF_THE_BUS)
    node.poll(12)
    assert node.account.made.count("set-instance-health") == 4
    assert node.account.members[INSTANCE] == ["InService", "Unhealthy"]
    assert [state for state, _ in node.told.of("action")] == ["failed", "failed", "ok"]


def test_store_that_refuses_the_evidence_does_not_keep_a_broken_node_in_service(node: WatchedNode) -> None:
    node.account.denied["cp"] = 100
    node.begin({})
    node.kernel_says(OFF_THE_BUS)
    node.poll(2)
    assert node.actions == 0
    node.poll(3)
    assert (node.actions, node.account.bundles) == (1, [])


@pytest.mark.parametrize("text", ["", "{", '{"boot_id": "boot-1", "open": 7}', '{"boot_id": "boot-1", "open": [{}]}'])
def test_memory_that_is_garbage_is_forgotten(node: WatchedNode, text: str) -> None:
    node.write("run/gpu-cluster/watch.json", text)
    node.begin({})
    node.poll()
    node.kernel_says(OFF_THE_BUS)
    node.poll(3)
    assert node.actions == 1
