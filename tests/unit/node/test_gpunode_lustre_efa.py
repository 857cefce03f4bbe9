"""Lustre over EFA: its set-up, the probe that tells EFA from TCP, and the check that reads both."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import cli, command, lustre
from cdk_gpu_clusters.node.gpunode.checks.network import check_lustre
from cdk_gpu_clusters.node.gpunode.command import Outcome
from cdk_gpu_clusters.node.gpunode.lustre import choose_devices
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from efa_sysfs import add_device
from fakes import lnet as fakes

ROUTES = """Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
ens65 0001010A 00000000 0001 0 0 512 00FFFFFF 0 0 0
ens65 00000000 0101010A 0003 0 0 512 00000000 0 0 0
ens33 00000000 0101010A 0003 0 0 100 00000000 0 0 0
"""
SETTINGS = "GPU_LUSTRE_EFA=2\nGPU_LUSTRE_EFA_DRIVER=2.12.1\nGPU_LUSTRE_EFA_LND=1.1.1\n"


class EfaNode:
    """A node with four EFA devices, and a file system with EFA at /fsx."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "tools").mkdir()
        self.lnet = fakes.install(root / "tools")
        for name in ("rdmap0s0", "rdmap16s0", "rdmap32s0", "rdmap48s0", "ibp99s0"):
            add_device(root, name)
        self.write("proc/net/route", ROUTES)
        self.write("proc/sys/kernel/random/boot_id", "boot-1\n")
        self.write("etc/gpu-cluster/node.env", SETTINGS)
        self.write("etc/gpu-cluster/mounts", "/fsx fs-0.example abcd relatime,flock efa\n")
        self.write("proc/mounts", f"10.1.2.0@tcp:/abcd {root}/fsx lustre rw 0 0\n")
        (root / "fsx").mkdir()

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def nets(self) -> list[tuple[str, str]]:
        return [(net["network"], net["device"]) for net in self.lnet.state["nets"]]

    def checked(self) -> list[tuple[str, str, str]]:
        node = Node(Settings(), Metadata(), "i-1", Aws("us-east-1"))
        return [(result.check, result.severity.name, result.found) for result in check_lustre(node)]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EfaNode:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"), prepend=":")
    monkeypatch.setattr(lustre, "_PAUSE_SECONDS", 0)
    return EfaNode(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = cli.main(["lustre-efa", *arguments])
    return status, capsys.readouterr().out.strip()


def test_lustre_gets_efa_devices_beside_tcp(node: EfaNode, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "set-up") == (0, "2 EFA interfaces")
    state = node.lnet.state
    assert state["loaded"] == ["lnet", "kefalnd ipif_name=ens33", "ksocklnd"]
    assert node.nets()[0] == ("tcp", "ens33")
    assert sorted(node.nets()[1:]) == [("efa", "rdmap0s0"), ("efa", "rdmap48s0")]
    assert state["policies"] == ["efa"]


def test_each_device_has_a_time_of_its_own(
    node: EfaNode, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LNet adds them under a mutex: 16 at 9 s each would use up the time of those that wait."""
    busy = threading.Lock()

    def slow(*arguments: str, timeout_seconds: float) -> Outcome:
        if "efa" not in arguments or "add" not in arguments:
            return command.run(*arguments, timeout_seconds=timeout_seconds)
        assert busy.acquire(blocking=False), "another device is being added"
        time.sleep(0.05)
        busy.release()
        return command.run(*arguments, timeout_seconds=timeout_seconds)

    monkeypatch.setattr(lustre, "run", slow)
    node.write("etc/gpu-cluster/node.env", SETTINGS.replace("EFA=2", "EFA=4"))
    assert run(capsys, "set-up") == (0, "4 EFA interfaces")


def test_what_is_there_already_stays(node: EfaNode, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "set-up")
    before = node.lnet.state
    assert run(capsys, "set-up") == (0, "2 EFA interfaces")
    assert {**node.lnet.state, "loaded": []} == {**before, "loaded": []}


def test_devices_that_the_image_has_chosen_stay_and_count(node: EfaNode, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [{"network": "efa", "device": f"rdmap{number}s0", "sent": 0, "up": True} for number in (16, 32)]
    node.lnet.change(nets=[{"network": "tcp", "device": "ens33", "sent": 0, "up": True}, *chosen])
    assert run(capsys, "set-up") == (0, "2 EFA interfaces")
    assert node.nets() == [("tcp", "ens33"), ("efa", "rdmap16s0"), ("efa", "rdmap32s0")]


@pytest.mark.parametrize(
    ("devices", "count", "chosen"),
    [
        (32, 8, [0, 4, 8, 13, 17, 22, 26, 31]),
        (16, 8, [0, 2, 4, 6, 8, 10, 12, 15]),
        (8, 8, list(range(8))),
        (4, 8, list(range(4))),
        (4, 2, [0, 3]),
        (1, 1, [0]),
        (0, 2, []),
    ],
)
def test_devices_lie_evenly_among_all(devices: int, count: int, chosen: list[int]) -> None:
    names = [f"rdmap{number:02}s0" for number in range(devices)]
    found = choose_devices(names, count)
    assert found == [names[number] for number in chosen]
    if devices == 32:  # p5: four on each PCI bus
        assert [names.index(name) // 4 for name in found] == list(range(8))


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"modules": {**fakes.MODULES, "lustre": "2.12.8"}}, "module lustre is 2.12.8, 2.15 is required"),
        ({"modules": {**fakes.MODULES, "efa": "2.10.0g"}}, "module efa is 2.10.0g, 2.12.1 is required"),
        ({"modules": {**fakes.MODULES, "kefalnd": "1.1.0"}}, "module kefalnd is 1.1.0, 1.1.1 is required"),
        ({"modules": {**fakes.MODULES, "efa": " "}}, "module efa is of no version, 2.12.1 is required"),
        ({"modules": {"lustre": "2.15.6", "efa": "3.0.0"}}, "the kernel has no module kefalnd"),
        ({"refused": ["rdmap48s0"]}, "EFA on rdmap48s0: "),
        (
            {"nets": [{"network": "efa", "device": "rdmap0s0", "sent": 0, "up": False}]},
            "1 of 2 EFA interfaces are up in LNet: rdmap48s0",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_why_lustre_cannot_use_efa(
    node: EfaNode, capsys: pytest.CaptureFixture[str], state: dict[str, Any], reason: str
) -> None:
    node.lnet.change(**state)
    status, words = run(capsys, "set-up")
    assert (status, reason in words) == (1, True)
    assert node.checked()[1][1] == "MONITOR"


def test_a_node_without_devices_or_routes_says_so(node: EfaNode, capsys: pytest.CaptureFixture[str]) -> None:
    node.write("proc/net/route", ROUTES.splitlines()[0] + "\n")
    assert run(capsys, "set-up") == (1, "no network device has a route")
    node.write("proc/net/route", ROUTES)
    for device in (node.root / "sys/class/infiniband").glob("rdmap*"):
        shutil.rmtree(device)
    assert run(capsys, "set-up") == (1, "the node has no EFA devices")


def test_data_that_take_efa(node: EfaNode, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "set-up")
    status, words = run(capsys, "probe", "/fsx")
    assert (status, words) == (
        0,
        "2 EFA interfaces, 2 servers with EFA; 32 MiB took 32 messages by EFA and 3 by TCP",
    )
    assert list((node.root / "fsx").iterdir()) == []
    assert node.checked() == [
        ("lustre", "OK", "/fsx answers"),
        ("lustre-efa", "OK", "2 EFA interfaces, 2 servers with EFA"),
    ]


def test_data_that_fall_back_to_tcp_without_a_word(node: EfaNode, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "set-up")
    node.lnet.change(takes="tcp")
    status, words = run(capsys, "probe", "/fsx")
    assert (status, words.endswith("took 0 messages by EFA and 35 by TCP")) == (1, True)
    assert node.checked()[1][:2] == ("lustre-efa", "MONITOR")
    assert "35 by TCP" in node.checked()[1][2]


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ({"nets": []}, "data take TCP: LNet has no EFA interface that is up"),
        (
            {"servers": [False, False]},
            "data take TCP: 2 EFA interfaces, but no server reported an EFA address",
        ),
    ],
)
def test_a_network_that_loses_efa_later_is_seen_without_writing(
    node: EfaNode, capsys: pytest.CaptureFixture[str], state: dict[str, Any], found: str
) -> None:
    run(capsys, "set-up")
    run(capsys, "probe", "/fsx")
    node.lnet.change(**state)
    [_, (check, severity, words)] = node.checked()
    assert (check, severity, words.startswith(found)) == ("lustre-efa", "MONITOR", True)
    assert run(capsys, "probe", "/fsx")[0] == 1


def test_an_interface_that_goes_down_is_named(node: EfaNode, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "set-up")
    nets = node.lnet.state["nets"]
    nets[-1]["up"] = False
    node.lnet.change(nets=nets)
    assert nets[-1]["device"] in run(capsys, "probe", "/fsx")[1]


def test_what_another_boot_has_measured_tells_nothing(node: EfaNode, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "set-up")
    run(capsys, "probe", "/fsx")
    node.write("proc/sys/kernel/random/boot_id", "boot-2\n")
    assert node.checked()[1] == ("lustre-efa", "UNKNOWN", "not measured during this boot")


def test_a_file_that_cannot_be_written_tells_nothing(node: EfaNode, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "set-up")
    (node.root / "tools/dd").write_text("#!/bin/sh\necho 'No space left on device' >&2; exit 1\n")
    status, words = run(capsys, "probe", "/fsx")
    assert (status, "No space left" in words) == (1, True)
    assert node.checked()[1][1] == "UNKNOWN"


def test_mounts_over_tcp_are_not_asked_for_efa(node: EfaNode) -> None:
    node.write("etc/gpu-cluster/mounts", "/fsx fs-0.example abcd relatime,flock\n")
    assert node.checked() == [("lustre", "OK", "/fsx answers")]
