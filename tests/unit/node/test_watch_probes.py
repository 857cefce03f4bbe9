"""The watchdog's own looks: the tool, the disk, and the checks of verify at their pace."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from cdk_gpu_clusters.node.gpunode import nvidia_smi, state
from cdk_gpu_clusters.node.gpunode.checks.check import Check, Result, Severity, Undetermined
from cdk_gpu_clusters.node.gpunode.command import STUCK, TIMED_OUT, Outcome
from cdk_gpu_clusters.node.gpunode.node import Node
from cdk_gpu_clusters.node.gpunode.watch.probes import (
    Probe,
    probe_disk,
    probe_lustre_client,
    probe_nvidia_smi,
    probes_of,
)
from watched_node import WatchedNode


def of_checks(node: Node, checks: dict[str, Check]) -> list[Probe]:
    """The probes of a node that are its checks."""
    return [probe for probe in probes_of(node, checks) if probe.name in checks]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedNode:
    watched = WatchedNode(tmp_path)
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(watched.root))
    monkeypatch.setenv("PATH", str(watched.tools))
    return watched


def test_nvidia_smi_that_answers_is_well(watched: WatchedNode) -> None:
    assert probe_nvidia_smi() == []


@pytest.mark.parametrize(
    ("outcome", "key", "severity"),
    [
        (Outcome(STUCK, "nvidia-smi is still stuck in the kernel"), "nvidia-smi-stuck", Severity.REBOOT),
        (
            Outcome(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure"),
            "driver-gone",
            Severity.REBOOT,
        ),
        (Outcome(TIMED_OUT, "nvidia-smi did not end within 20 s"), "nvidia-smi", Severity.MONITOR),
    ],
)
def test_tool_that_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome, key: str, severity: Severity
) -> None:
    monkeypatch.setattr(nvidia_smi, "call", lambda *_, **__: outcome)
    [symptom] = probe_nvidia_smi()
    assert (symptom.key, symptom.severity) == (key, severity)
    assert symptom.confirmations == (3 if severity is Severity.REBOOT else 2)


@pytest.mark.parametrize("script", ["#!/bin/sh\necho '\\377 garbage'\n", "#!/bin/sh\nexit 3\n", "#!/bin/sh\n"])
def test_garbage_of_the_tool_says_nothing_of_the_driver(watched: WatchedNode, script: str) -> None:
    watched.tool("nvidia-smi", script)
    assert probe_nvidia_smi() == []


def test_driver_that_is_being_changed_is_not_gone(watched: WatchedNode) -> None:
    watched.tool("nvidia-smi", '#!/bin/sh\necho "couldn\'t communicate with the NVIDIA driver"\nexit 9\n')
    assert [symptom.key for symptom in probe_nvidia_smi()] == ["driver-gone"]
    watched.write("proc/4711/comm", "nvidia-installe\n")
    assert probe_nvidia_smi() == []


def test_missing_tool_is_only_watched(watched: WatchedNode) -> None:
    (watched.tools / "nvidia-smi").unlink()
    [symptom] = probe_nvidia_smi()
    assert (symptom.severity, symptom.reason) == (Severity.MONITOR, "not found: nvidia-smi")


class _Disk(NamedTuple):
    f_flag: int
    f_bavail: int
    f_frsize: int


@pytest.mark.parametrize(
    ("disk", "key"),
    [
        (_Disk(os.ST_RDONLY, 10**9, 4096), "disk-read-only"),
        (_Disk(0, 16 * 1024 - 1, 4096), "disk-full"),
        (_Disk(0, 0, 4096), "disk-full"),
    ],
)
def test_disk_that_takes_nothing_is_only_watched(
    watched: WatchedNode, monkeypatch: pytest.MonkeyPatch, disk: _Disk, key: str
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    [symptom] = probe_disk()
    assert (symptom.key, symptom.severity) == (key, Severity.MONITOR)


def test_disk_with_room_is_well_and_one_that_does_not_answer_is_told(
    watched: WatchedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: _Disk(0, 16 * 1024, 4096))
    assert probe_disk() == []
    monkeypatch.undo()
    monkeypatch.setenv("GPU_CLUSTER_ROOT", "/proc/nowhere")
    [symptom] = probe_disk()
    assert symptom.reason == "/proc/nowhere/var/lib: No such file or directory"


def results(*found: Result) -> Callable[[Node], list[Result]]:
    return lambda _: list(found)


def test_checks_become_symptoms_that_enough_looks_must_agree_on(watched: WatchedNode) -> None:
    lost = Result("gpus", Severity.REPLACE, "7 GPUs answer", "8 GPUs", "replace the node")
    well = Result("gpus", Severity.OK, "8 GPUs")
    [look] = of_checks(watched.node(), {"gpus": results(lost, well)})
    [symptom] = look.take()
    assert (symptom.key, symptom.severity, symptom.confirmations, symptom.lasting) == (
        "gpus-replace",
        Severity.REPLACE,
        3,
        True,
    )
    assert symptom.reason == "7 GPUs answer (expected: 8 GPUs)"


def test_check_that_cannot_tell_is_unknown(watched: WatchedNode) -> None:
    def check(_: Node) -> list[Result]:
        raise Undetermined("nvidia-smi: not found")

    [look] = of_checks(watched.node(), {"ecc": check})
    [symptom] = look.take()
    assert (symptom.severity, symptom.reason) == (Severity.UNKNOWN, "nvidia-smi: not found")


def test_no_condition_is_believed_after_one_look(watched: WatchedNode) -> None:
    broken = results(Result("any", Severity.REPLACE, "broken"))
    names = [
        "gpus",
        "ecc",
        "row-remapping",
        "sram",
        "recovery",
        "nvlink",
        "fabric",
        "neuron",
        "neuron-memory",
        "efa",
    ]
    looks = of_checks(watched.node(), dict.fromkeys([*names, "clocks", "lustre", "pcie", "driver"], broken))
    assert [look.name for look in looks] == [*names, "clocks", "lustre"]
    assert min(symptom.confirmations for look in looks for symptom in look.take()) == 2


def test_settings_say_what_is_looked_at(watched: WatchedNode) -> None:
    checks = {"gpus": results()}
    assert [look.name for look in probes_of(watched.node(efa_count="2"), checks)] == [
        "boot",
        "disk",
        "gpus",
        "nvidia-smi",
        "efa-counters",
    ]
    assert [look.name for look in probes_of(watched.node(mounts="1"), {})][-1] == "lustre-client"
    assert [look.name for look in probes_of(watched.node(accelerator="neuron"), {})] == ["boot", "disk"]


@pytest.mark.parametrize(
    ("said", "reasons"),
    [
        (None, []),
        ("healthy\n", []),
        ("LBUG\n", ["the Lustre client reports: LBUG"]),
        (
            "device fsx-OST0001-osc reported unhealthy\nNOT HEALTHY\n",
            ["the Lustre client reports: device fsx-OST0001-osc reported unhealthy NOT HEALTHY"],
        ),
    ],
)
def test_lustre_client_says_how_it_is(watched: WatchedNode, said: str | None, reasons: list[str]) -> None:
    if said is not None:
        watched.write("sys/fs/lustre/health_check", said)
    assert [symptom.reason for symptom in probe_lustre_client()] == reasons


def test_memory_is_of_one_boot(watched: WatchedNode) -> None:
    assert state.recall("watch") == {}
    state.remember("watch", {"sequence": 7})
    assert state.recall("watch")["sequence"] == 7
    watched.write("proc/sys/kernel/random/boot_id", "boot-2\n")
    assert state.recall("watch") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"boot_id": 7}', '"boot-1"', "\x00"])
def test_garbage_in_memory_is_forgotten(watched: WatchedNode, text: str) -> None:
    watched.write("run/gpu-cluster/watch.json", text)
    assert state.recall("watch") == {}
