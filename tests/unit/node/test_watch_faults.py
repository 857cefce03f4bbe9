"""Injected faults: what is seen, and what is done about it. docs/reliability.md lists them."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import command, reporting
from cdk_gpu_clusters.node.gpunode.checks import network
from cdk_gpu_clusters.node.gpunode.checks.verify import checks_of
from cdk_gpu_clusters.node.gpunode.watch import probes, service
from cdk_gpu_clusters.node.gpunode.watch.kernel import XidTable
from fakes import gpu_health, kubectl
from watched_node import INSTANCE, WatchedNode

OFF_THE_BUS = "NVRM: Xid (PCI:0000:10:1c): 79, pid=1896, GPU has fallen off the bus."
TABLE = XidTable(
    {
        "13": {"class": "monitor"},
        "79": {"class": "replace"},
        "154": {"class": "recovery"},
    },
    recovery_actions={"2": "reboot"},
)
GPUS = {"accelerator_count": "2", "model": "H100"}
VOLATILE = "ecc.errors.uncorrected.volatile.total"
A_MINUTE = 7


class Watched(WatchedNode):
    """A node under a watchdog that takes only some of the checks of `verify`."""

    def start(self, *names: str, **settings: str) -> None:
        settings = {**GPUS, **settings}
        known = checks_of(self.node(**settings))
        self.begin({name: known[name] for name in names}, **settings)

    def gpus(self, *gpus: dict[str, Any], **state: Any) -> None:
        """The GPUs behind an nvidia-smi with the texts of the real one."""
        gpu_health.install(self.tools, {"gpus": list(gpus), **state})


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(service, "read_xids", lambda: TABLE)
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    return Watched(tmp_path)


@pytest.mark.parametrize(
    ("message", "symptom", "actions"),
    [
        (OFF_THE_BUS, "xid-79-0000:10:1c", 1),
        ("NVRM: Xid (PCI:0000:10:1c): 13, pid=2, Graphics Exception", "xid-13-0000:10:1c", 0),
        ("NVRM: Xid (PCI:0000:10:1c): 999, who knows", "xid-999-0000:10:1c", 0),
        (
            "NVRM: Xid (PCI:0000:10:1c): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            "xid-154-0000:10:1c",
            1,
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 30 timeout",
            "sxid-24007-0000:c3:00.0",
            1,
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 19084, Non-fatal, Link 29",
            "sxid-19084-0000:c3:00.0",
            0,
        ),
        (
            "LustreError: 167-0: fsx: This client was evicted by fsx-OST0001; in progress",
            "evicted-fsx-OST0001",
            0,
        ),
        ("INFO: task python3:4711 blocked for more than 122 seconds.", "hung-python3", 0),
    ],
    ids=[
        "xid-79",
        "xid-13",
        "xid-unknown",
        "xid-154",
        "sxid-fatal",
        "sxid-non-fatal",
        "evicted",
        "hung-task",
    ],
)
def test_message_of_the_kernel(node: Watched, message: str, symptom: str, actions: int) -> None:
    node.start()
    node.poll(2)
    node.kernel_says(message)
    node.poll(2)
    assert node.told.symptoms() == [symptom]
    assert (node.actions, len(node.account.bundles)) == (actions, actions)


def test_gpu_that_is_lost_for_a_minute(node: Watched) -> None:
    node.gpus({}, {"lost": True})
    node.start("gpus")
    node.poll(A_MINUTE - 1)
    assert (node.actions, node.told.all) == (0, [])
    node.poll(3)
    assert node.told.symptoms() == ["gpus-replace"]
    assert node.actions == 1


def test_gpu_that_is_lost_for_moments(node: Watched) -> None:
    node.start("gpus")
    rows: list[list[dict[str, Any]]] = [[{}, {"lost": True}], [{}, {}], [{}], [{}, {}]]
    for gpus in rows:
        node.gpus(*gpus)
        node.poll(2)
    assert (node.actions, node.told.all) == (0, [])


@pytest.mark.parametrize(
    ("check", "gpu", "polls", "symptom", "actions"),
    [
        ("ecc", {VOLATILE: "3", "ecc.errors.uncorrected.aggregate.total": "3"}, 5, "ecc-reset", 0),
        ("row-remapping", {"remapped_rows.failure": "1"}, 5, "row-remapping-replace", 1),
        ("row-remapping", {"remapped_rows.pending": "1"}, 5, "row-remapping-reset", 0),
        ("clocks", {"clocks_event_reasons.hw_thermal_slowdown": "Active"}, A_MINUTE, "clocks-monitor", 0),
        ("sram", {"sram": "Yes"}, 8, "sram-replace", 1),
        ("recovery", {"recovery": "Reboot"}, 8, "recovery-reboot", 1),
    ],
    ids=["ecc", "remap-failed", "remap-pending", "too-hot", "sram", "driver-asks-for-reboot"],
)
def test_counters_and_flags_of_the_driver(
    node: Watched, check: str, gpu: dict[str, Any], polls: int, symptom: str, actions: int
) -> None:
    node.gpus({}, gpu)
    node.start(check)
    node.poll(polls)
    assert node.told.symptoms() == [symptom]
    assert node.actions == actions


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\necho 'GPU 0: NVI\\377\\001, 7, , ,'\n",
        "#!/bin/sh\necho 'Segmentation fault' >&2; exit 139\n",
        "",
    ],
    ids=["garbage", "crash", "empty"],
)
def test_tool_that_talks_nonsense_replaces_no_node(node: Watched, script: str) -> None:
    node.tool("nvidia-smi", script)
    node.start("gpus", "ecc", "row-remapping", "clocks")
    node.poll(12)
    assert node.actions == 0
    assert {event["severity"] for event in node.told.all} <= {"unknown", "monitor"}
    assert node.told.all


def test_tool_that_is_missing_replaces_no_node(node: Watched) -> None:
    (node.tools / "nvidia-smi").unlink()
    node.start("gpus", "ecc")
    node.poll(12)
    assert node.actions == 0
    assert sorted(node.told.symptoms()) == ["ecc", "gpus", "nvidia-smi"]


def test_garbage_between_two_true_answers_confirms_nothing(node: Watched) -> None:
    node.start("gpus")
    for _ in range(4):
        node.gpus({}, {"lost": True})
        node.poll(A_MINUTE - 1)
        node.tool("nvidia-smi", "#!/bin/sh\necho garbage\n")
        node.poll(3)
    assert node.actions == 0


def test_driver_that_is_gone_for_a_minute(node: Watched) -> None:
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    node.tool("nvidia-smi", f'#!/bin/sh\necho "{said}"\nexit 9\n')
    node.start()
    node.poll(A_MINUTE - 1)
    assert node.actions == 0
    node.poll(2)
    assert node.told.symptoms() == ["driver-gone"]
    assert node.actions == 1


def test_tool_that_is_stuck_in_the_kernel_does_not_stop_the_loop_and_gets_no_company(
    node: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in uninterruptible sleep: no signal would reach it, and none is sent."""
    started = node.root / "started"
    node.tool("nvidia-smi", f"#!/bin/sh\necho >>{started}\nexec /bin/sleep 60\n")
    for program in (probes, reporting):
        monkeypatch.setattr(program, "_TIMEOUT_SECONDS", 1)
    monkeypatch.setattr(command, "is_uninterruptible", lambda _: True)
    signals = list[int]()
    monkeypatch.setattr(os, "killpg", lambda group, _: signals.append(group))
    node.start()
    node.poll(A_MINUTE - 1)
    assert node.actions == 0
    node.poll(4)
    assert node.told.symptoms() == ["nvidia-smi-stuck"]
    assert node.actions == 1
    # The bundle of evidence starts no other, either.
    assert (len(started.read_text()), signals) == (1, [])
    node.kernel_says("LustreError: 167-0: fsx: This client was evicted by fsx-OST0001; in progress")
    node.poll()
    assert "evicted-fsx-OST0001" in node.told.symptoms()
    monkeypatch.undo()


def test_tool_that_is_slow_is_only_told(node: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_TIMEOUT_SECONDS", 0.05)
    node.tool("nvidia-smi", "#!/bin/sh\nexec /bin/sleep 60\n")
    node.start()
    node.poll(8)
    assert node.told.symptoms() == ["nvidia-smi"]
    assert node.actions == 0


def test_efa_device_with_many_errors_is_only_told(node: Watched) -> None:
    node.efa_counter("rdmap0s1", "retrans_timeout_events", 0)
    node.start(efa_count="1")
    node.poll(3)
    node.efa_counter("rdmap0s1", "retrans_timeout_events", 5_000)
    node.poll(3)
    assert node.told.symptoms() == ["efa-rdmap0s1-retrans_timeout_events"]
    assert node.actions == 0


def test_efa_device_that_is_gone(node: Watched) -> None:
    node.efa_counter("rdmap0s1", "rx_drops", 0)
    node.start("efa", efa_count="2")
    node.poll(12)
    assert node.actions == 0
    node.poll()
    assert node.told.symptoms() == ["efa-replace"]
    assert node.actions == 1


def test_file_system_that_hangs_or_is_gone_is_only_told(node: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_MOUNT_SECONDS", 0.05)
    node.write("etc/gpu-cluster/mounts", "/fsx fs-0.fsx.us-east-2.amazonaws.com abcd flock\n")
    node.write("proc/mounts", f"10.0.0.9@tcp:/abcd {node.root}/fsx lustre rw 0 0\n")
    hang = threading.Event()
    monkeypatch.setattr(network, "_statvfs", lambda _: str(hang.wait(30) or "")[:0])
    node.start("lustre", mounts="1")
    node.poll(5)
    assert node.told.of("watch") == [("seen", "/fsx: no answer within 0.05 s (expected: an answer)")]
    hang.set()
    node.write("proc/mounts", "")
    node.poll(12)
    assert node.actions == 0


def test_xid_drains_a_slurm_node_once(node: Watched) -> None:
    said = node.root / "scontrol"
    state = node.write("sinfo", "gpu-1|gpu-1|10.0.0.1|train*|mixed|Unknown|none\n")
    node.tool("sinfo", f'#!/bin/sh\nread -r line <{state}\necho "$line"\n')
    node.tool(
        "scontrol",
        f'#!/bin/sh\necho "$*" >>{said}\necho "gpu-1|gpu-1|10.0.0.1|train*|draining|Unknown|gpunode: x" >{state}\n',
    )
    node.start(orchestrator="slurm", node_name="gpu-1")
    node.kernel_says(OFF_THE_BUS, OFF_THE_BUS.replace("10:1c", "20:1c"))
    node.poll(12)
    [line] = said.read_text().splitlines()
    assert line.startswith("update NodeName=gpu-1 State=DRAIN Reason=gpunode: replace: Xid 79 on 0000:10:1c")
    assert len(node.account.bundles) == 1


def test_xid_cordons_a_kubernetes_node_once(node: Watched) -> None:
    state = node.root / "cluster.json"
    spec = {"providerID": f"aws:///us-east-2a/{INSTANCE}"}
    kubectl.install(node.tools, state, [{"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": []}}])
    node.start(orchestrator="eks")
    node.kernel_says(OFF_THE_BUS)
    node.poll(12)
    assert state.read_text().count('"cordon n"') == 1
    assert '"unschedulable": true' in state.read_text()
    assert len(node.account.bundles) == 1
