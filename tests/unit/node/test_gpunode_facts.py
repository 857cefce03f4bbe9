"""The facts of a node that `doctor` reads: what they are, when they are recorded, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import cli, facts, lustre, nvidia_smi, nvml, paths, spool
from cdk_gpu_clusters.node.gpunode.checks import network
from cdk_gpu_clusters.node.gpunode.command import Outcome
from cdk_gpu_clusters.node.gpunode.facts import INTERVAL_SECONDS, collect_facts, last_facts, record_facts
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from efa_sysfs import add_device

RECORDED = Path(__file__).resolve().parents[2] / "fixtures/tool_output"
GPU = {"accelerator": "gpu", "accelerator_count": "2"}


class FactNode:
    """A node with two split GPUs, two EFA devices, and Lustre over EFA."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.uptime = root, 100.0
        patch.setenv("GPU_CLUSTER_ROOT", str(root))
        (root / "tools").mkdir()
        patch.setenv("PATH", str(root / "tools"), prepend=":")
        patch.setattr(paths, "uptime_seconds", lambda: self.uptime)
        self.write("proc/sys/kernel/random/boot_id", "boot-1\n")
        self.write("proc/sys/vm/nr_hugepages", "5128\n")
        for name in ("rdmap0s0", "rdmap16s0"):
            add_device(root, name)
        self.lists(
            "0, 570.133.20, 81559\n1, 570.133.20, 81559\n", (RECORDED / "nvidia_smi/list-h100-mig-590.txt").read_text()
        )
        self.clock("yes")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def tool(self, name: str, script: str) -> None:
        file = self.root / "tools" / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def clock(self, synchronized: str) -> None:
        """What a real timedatectl printed, with another value (org.freedesktop.timedate1(5): a boolean)."""
        text = (RECORDED / "systemd/timedatectl-show-not-synchronized.txt").read_text()
        self.write("clock", text.replace("NTPSynchronized=no", f"NTPSynchronized={synchronized}"))
        self.tool("timedatectl", f"cat {self.root}/clock")

    def lists(self, rows: str, listing: str, status: int = 0) -> None:
        """What nvidia-smi answers to a query, and to -L."""
        self.write("rows", rows)
        self.write("listing", listing)
        files = f"{self.root}/listing", f"{self.root}/rows"
        self.tool("nvidia-smi", f'if [ "$1" = -L ]; then cat {files[0]}; else cat {files[1]}; fi\nexit {status}')

    def booted(self, state: str = "ready") -> None:
        self.write("run/gpu-cluster/boot.json", json.dumps({"boot_id": "boot-1", "state": state}))

    def record(self) -> list[dict[str, Any]]:
        """The events of a minute."""
        kept: list[dict[str, Any]] = []
        settings = Settings({"fleet": "trainers", **GPU})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spool, "keep", lambda _, record: kept.append(record))
            record_facts(Node(settings, Metadata(), "i-1", Aws("us-east-1")))
        self.uptime += 60
        return kept


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FactNode:
    return FactNode(tmp_path, monkeypatch)


def test_a_healthy_node_has_all_facts(node: FactNode) -> None:
    assert collect_facts(Settings(GPU)) == {
        "efa_devices": 2,
        "accelerators": 2,
        "driver": "570.133.20",
        "mig_devices": {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2},
        "huge_pages": 5128,
        "clock_synchronized": True,
    }


def test_a_node_without_gpus_has_the_others(node: FactNode) -> None:
    assert set(collect_facts(Settings({}))) == {"efa_devices", "huge_pages", "clock_synchronized"}


def test_neuron_devices_are_counted(node: FactNode) -> None:
    node.tool("neuron-ls", "echo '[{}, {}, {}]'")
    assert collect_facts(Settings({"accelerator": "neuron"}))["accelerators"] == 3
    node.tool("neuron-ls", "echo broken")
    assert "accelerators" not in collect_facts(Settings({"accelerator": "neuron"}))


def test_a_lost_gpu_is_missing_and_a_list_that_broke_off_proves_nothing(node: FactNode) -> None:
    rows = "0, 570.133.20, 81559\n"
    node.lists(f"{rows}1, [GPU is lost], [GPU is lost]\n", "")
    found = collect_facts(Settings(GPU))
    assert (found["accelerators"], found["driver"]) == (1, "570.133.20")
    assert "mig_devices" not in found
    node.lists(rows, "", status=9)
    assert "accelerators" not in collect_facts(Settings(GPU))


def test_gpus_that_are_not_split_have_no_mig_devices(node: FactNode) -> None:
    node.lists("", "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa)\n")
    assert nvidia_smi.mig_profiles() == {}
    assert collect_facts(Settings(GPU))["mig_devices"] == {}


@pytest.mark.parametrize(("printed", "fact"), [("yes", True), ("no", False), ("maybe", None), ("", None)])
def test_the_clock_is_as_systemd_says(node: FactNode, printed: str, fact: bool | None) -> None:
    node.clock(printed)
    assert collect_facts(Settings({})).get("clock_synchronized") is fact


@pytest.mark.parametrize("script", ["exit 1", "echo NTPSynchronized=no; exit 1", "echo yes"])
def test_a_clock_that_nobody_knows_is_left_out(node: FactNode, script: str) -> None:
    node.tool("timedatectl", script)
    assert "clock_synchronized" not in collect_facts(Settings({}))


# By hand, from the recorded listings.
LAYOUTS = {
    "list-a100-mig-old-uuid.txt": {"1g.5gb": 7},
    "list-a100-mig-two-3g.txt": {"3g.20gb": 2},
    "list-a100-pcie-x2.txt": {},
    "list-a100-x8-mixed-mig.txt": {
        "1g.5gb": 8,
        "2g.10gb": 4,
        "3g.20gb": 2,
        "7g.40gb": 1,
        "1c.3g.20gb": 6,
        "4g.20gb": 2,
        "1c.7g.40gb": 1,
        "2c.7g.40gb": 1,
        "3c.7g.40gb": 1,
    },
    "list-h100-mig-590.txt": {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2},
    "list-h100-mig-compute-instances.txt": {"1c.3g.40gb": 3, "1g.10gb": 2},
    "list-h200-mig-610.txt": {"3g.71gb": 1},
    "list-l40s-595.txt": {},
}


def test_every_recorded_listing_is_read() -> None:
    assert set(LAYOUTS) == {one.name for one in (RECORDED / "nvidia_smi").glob("list-*")}


@pytest.mark.parametrize("listing", LAYOUTS)
def test_profiles_are_counted_in_recorded_listings(node: FactNode, listing: str) -> None:
    node.lists("", (RECORDED / "nvidia_smi" / listing).read_text())
    assert collect_facts(Settings(GPU))["mig_devices"] == LAYOUTS[listing]


def test_a_recorded_query_has_the_driver(node: FactNode) -> None:
    recorded = (RECORDED / "nvidia_smi/query-driver-h200-590.csv").read_text()
    rows = recorded.partition("\n")[2].replace(" MiB", "")  # as with noheader, nounits
    node.lists(rows, "")
    found = collect_facts(Settings(GPU))
    assert (found["driver"], found["accelerators"]) == ("590.48.01", 1)


def test_the_software_is_that_of_the_settings(node: FactNode) -> None:
    assert collect_facts(Settings({"software_sha256": "0123456789abcdef" * 4}))["software"] == "0123456789ab"


def test_lustre_over_efa_or_tcp(node: FactNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def fact() -> Any:
        return collect_facts(Settings({})).get("lustre_over_efa")

    assert fact() is None  # no mount asks for EFA
    node.write("etc/gpu-cluster/mounts", "/fsx fs-0.example abcd relatime,flock efa\n")
    monkeypatch.setattr(network, "interfaces", list)
    assert fact() is None  # LNet does not answer this user
    up = [lustre.Interface("efa", "rdmap0s0", is_up=True, sent=0)]
    monkeypatch.setattr(network, "interfaces", lambda: up)
    monkeypatch.setattr(lustre, "servers_with_efa", lambda: 0)
    assert fact() is False
    monkeypatch.setattr(lustre, "servers_with_efa", lambda: 2)
    assert fact() is None  # nothing was measured in this boot
    lustre.remember_transport(lustre.Transport(True, "measured"))
    assert fact() is True
    lustre.remember_transport(lustre.Transport(False, "measured"))
    assert fact() is False


def test_facts_are_recorded_after_the_boot_and_then_once_an_hour(node: FactNode) -> None:
    assert node.record() == []
    node.booted("starting")
    assert node.record() == []
    node.booted()
    (event,) = node.record()
    assert (event["stage"], event["state"], event["instance_id"]) == ("facts", "ok", "i-1")
    assert event["facts"] == last_facts() == collect_facts(Settings(GPU))
    later = [bool(node.record()) for _ in range(INTERVAL_SECONDS // 60)]
    assert later == [*[False] * (INTERVAL_SECONDS // 60 - 1), True]


def test_facts_are_recorded_although_nothing_can_be_measured(node: FactNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Node) -> None:
        raise RuntimeError("no metrics")

    node.booted()
    own = Node(Settings(GPU), Metadata(), "", Aws("us-east-1"))
    known: dict[str, Any] = {"this_node": lambda: own, "measure": broken, "keep_off_job_cores": lambda: None}
    for name, value in known.items():
        monkeypatch.setattr(cli, name, value)
    monkeypatch.setattr(nvml, "enable", lambda: None)
    cli.main(["ship", "--measure"])
    assert last_facts() == collect_facts(own.settings)


def test_another_boot_records_anew(node: FactNode) -> None:
    node.booted()
    assert node.record()
    node.write("proc/sys/kernel/random/boot_id", "boot-2\n")
    assert last_facts() == {}
    assert node.record() == []
    node.write("run/gpu-cluster/boot.json", json.dumps({"boot_id": "boot-2", "state": "failed"}))
    node.uptime = 50
    assert len(node.record()) == 1


def test_a_broken_reader_takes_only_its_own_fact_away(
    node: FactNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("odd \x1b[2J")

    monkeypatch.setattr(facts, "efa_devices", broken)
    assert set(collect_facts(Settings({}))) == {"huge_pages", "clock_synchronized"}
    assert "\x1b" not in capsys.readouterr().err


def test_hostile_text_of_a_driver_is_one_short_line(node: FactNode) -> None:
    node.lists(f"0, 570\x1b[2J\x07{'9' * 500}, 81559\n", "GPU 0: x (UUID: y)\n")
    found = collect_facts(Settings(GPU))["driver"]
    assert found.isprintable()
    assert len(found) <= 40


def test_facts_that_cannot_be_stored_are_not_written_every_minute(
    node: FactNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    node.booted()
    monkeypatch.setattr(paths, "write_atomically", full)
    with pytest.raises(OSError, match="no space"):
        node.record()


def test_an_event_with_facts_is_small(node: FactNode) -> None:
    node.booted()
    (event,) = node.record()
    assert len(json.dumps(event)) < 1_000


def test_no_program_of_the_driver_is_asked_twice(node: FactNode, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def call(*arguments: str, timeout_seconds: float = 0) -> Outcome:
        asked.append(arguments)
        return Outcome(0, "")

    monkeypatch.setattr(nvidia_smi, "call", call)
    collect_facts(Settings(GPU))
    assert len(asked) == 2
