"""What a node measures of itself, as records that CloudWatch makes metrics of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import paths, spool
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.cli import main
from cdk_gpu_clusters.node.gpunode.events import Events
from cdk_gpu_clusters.node.gpunode.metrics import collect
from cdk_gpu_clusters.node.gpunode.metrics.collect import measure
from cdk_gpu_clusters.node.gpunode.metrics.exposition import exposition
from cdk_gpu_clusters.node.gpunode.metrics.names import (
    EFA_RECEIVED,
    GPU_UTILIZATION,
    METRICS,
    NAMESPACE,
    XIDS,
)
from cdk_gpu_clusters.node.gpunode.metrics.record import record
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from cdk_gpu_clusters.node.gpunode.state import remember
from cdk_gpu_clusters.node.gpunode.watch.cases import Cases
from cdk_gpu_clusters.node.gpunode.watch.probes import Symptom
from efa_sysfs import add_device

INSTANCE = "i-0123456789abcdef0"
# CloudWatch API reference, MetricDatum: Unit.
UNITS = {"Percent", "Bytes", "Seconds", "Count", "None", "Bytes/Second", "Count/Second"}

# As nvidia-smi 575 and 535 print it for a GPU split in two; no utilization, and the GPU's own memory is not told.
MIG = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log><gpu id="00000000:55:00.0">
<mig_devices>
<mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id><compute_instance_id>0</compute_instance_id>
<fb_memory_usage><total>20096 MiB</total><reserved>0 MiB</reserved><used>5024 MiB</used></fb_memory_usage></mig_device>
<mig_device><index>1</index><gpu_instance_id>2</gpu_instance_id><compute_instance_id>0</compute_instance_id>
<fb_memory_usage><total>20096 MiB</total><reserved>0 MiB</reserved><used>N/A</used></fb_memory_usage></mig_device>
</mig_devices>
<processes>{processes}</processes></gpu>
<gpu id="00000000:56:00.0"><mig_devices>None</mig_devices></gpu></nvidia_smi_log>
"""
PROCESS = (
    "<process_info><gpu_instance_id>{}</gpu_instance_id><compute_instance_id>0</compute_instance_id></process_info>"
)


class MeasuredNode:
    """A node with two GPUs, two EFA devices and a Lustre mount, whose minutes pass when told to."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.uptime = root, 100.0
        patch.setattr(paths, "uptime_seconds", lambda: self.uptime)
        patch.setenv("GPU_CLUSTER_ROOT", str(root))
        patch.setenv("PATH", f"{root}/tools:/usr/bin:/bin")
        self.settings = {
            "fleet": "Training/Trainers",
            "accelerator": "gpu",
            "efa_count": "2",
            "mounts": "1",
        }
        self.write("proc/sys/kernel/random/boot_id", "boot-1\n")
        self.works(0, 0)

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def tool(self, name: str, body: str) -> None:
        self.write(f"tools/{name}", f"#!/bin/sh\n{body}\n").chmod(0o755)

    def works(self, *utilizations: object) -> None:
        """Utilization of each GPU."""
        rows = [f"{index}, {value}, 40960, 410.5, 55, 81920" for index, value in enumerate(utilizations)]
        self.says(rows)

    def says(self, rows: list[str], xml: str = "") -> None:
        file, listing = self.write("rows", "\n".join(rows)), self.write("xml", xml)
        self.tool("nvidia-smi", f"if [ $1 = -q ]; then cat {listing}; else cat {file}; fi")

    def efa(self, device: str, **counters: object) -> None:
        for name, value in counters.items():
            add_device(self.root, device)
            self.write(f"sys/class/infiniband/{device}/ports/1/hw_counters/{name}", f"{value}\n")

    def lustre(self, read: int, written: int) -> None:
        lines = [
            "llite.abcd-ffff8c.stats=",
            "snapshot_time             1795253203.502 secs.nsecs",
            f"read_bytes                12 samples [bytes] 4096 4194304 {read}",
            f"write_bytes               12 samples [bytes] 4096 4194304 {written} 99",
            "open                      5 samples [usec]",
        ]
        self.tool("lctl", f"cat {self.write('stats', chr(10).join(lines))}")

    def measure(self, *, after: float = 60) -> dict[str, Any]:
        self.uptime += after
        node = Node(Settings(self.settings), Metadata(), INSTANCE, Aws("us-east-2"))
        made = measure(node)
        if made:
            [line] = spool.take("metrics")
            spool.give_back("metrics", [])
            assert json.loads(json.loads(line)["message"]) == made
            check(made)
        return made


def check(made: dict[str, Any]) -> None:
    """Hold a record against the specification of the embedded metric format, and against the list of metrics."""
    assert isinstance(made["_aws"]["Timestamp"], int)
    [directive] = made["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == NAMESPACE
    assert directive["Dimensions"] == [["Fleet"], ["Fleet", "InstanceId"]]
    assert 0 < len(directive["Metrics"]) <= 100
    units = {metric.name: metric.unit for metric in METRICS}
    for definition in directive["Metrics"]:
        assert definition["Unit"] == units[definition["Name"]]
        value = made[definition["Name"]]
        values = value if isinstance(value, list) else [value]
        assert 0 < len(values) <= 100
        assert all(isinstance(one, (int, float)) for one in values)
    assert all(isinstance(made[name], str) for name in ("Fleet", "InstanceId"))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MeasuredNode:
    return MeasuredNode(tmp_path, monkeypatch)


def test_a_value_for_each_gpu(node: MeasuredNode) -> None:
    node.works(97, 3)
    made = node.measure()
    assert made["Fleet"] == "Training/Trainers"
    assert made["InstanceId"] == INSTANCE
    assert made["GpuUtilization"] == [97, 3]
    assert made["GpuMemoryUsed"] == [40960 * 1024 * 1024] * 2
    assert made["GpuMemoryUsedPercent"] == [50, 50]
    assert made["GpuPowerDrawWatts"] == [410.5, 410.5]
    assert made["GpuTemperatureCelsius"] == [55, 55]


def test_prometheus_reads_which_gpu_and_efa_device_a_value_belongs_to(node: MeasuredNode) -> None:
    node.says(["0, [N/A], 40960, 410.5, 55, 81920", "1, 3, 40960, 410.5, 55, 81920"])
    node.efa("rdmap0", rx_bytes=100)
    node.measure()
    node.efa("rdmap0", rx_bytes=700)
    node.measure()
    lines = exposition(Node(Settings(node.settings), Metadata(), INSTANCE, Aws("us-east-2"))).splitlines()
    whose = f'fleet="Training/Trainers",instance_id="{INSTANCE}"'
    assert [line for line in lines if line.startswith("gpu_cluster_gpu_utilization_percent{")] == [
        f'gpu_cluster_gpu_utilization_percent{{{whose},gpu="1"}} 3.0'
    ]
    assert f'gpu_cluster_efa_received_bytes_per_second{{{whose},device="rdmap0/1"}} 10.0' in lines


def test_idle_time_runs_from_the_last_activity(node: MeasuredNode) -> None:
    assert node.measure()["IdleSeconds"] == 160  # since the kernel's start
    node.works(0, 1)
    assert node.measure()["IdleSeconds"] == 0
    node.works(0, 0)
    assert node.measure()["IdleSeconds"] == 60
    assert node.measure(after=600)["IdleSeconds"] == 660


def test_a_driver_that_says_nothing_neither_ends_nor_hides_idle_time(node: MeasuredNode) -> None:
    node.works(1)
    node.measure()
    node.says(["0, [N/A], [N/A], [N/A], [N/A], [N/A]"])
    made = node.measure()
    assert made["IdleSeconds"] == 60
    assert "GpuUtilization" not in made
    node.says(["NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."])
    assert node.measure()["IdleSeconds"] == 120


def test_gpus_that_never_told_have_no_idle_time(node: MeasuredNode) -> None:
    node.says(["0, [N/A], 1, 1, 1, 1"])
    assert "IdleSeconds" not in node.measure()


def test_mig_devices_have_memory_and_processes_but_no_utilization(node: MeasuredNode) -> None:
    node.settings["mig_count"] = "2"
    rows = ["0, [N/A], [N/A], 100.0, 40, 81920"]
    node.says(rows, MIG.format(processes=""))
    made = node.measure()
    assert "GpuUtilization" not in made
    assert made["MigMemoryUsed"] == 5024 * 1024 * 1024
    assert made["MigMemoryUsedPercent"] == 25
    assert (made["MigDevicesInUse"], made["IdleSeconds"]) == (0, 160)
    node.says(rows, MIG.format(processes=PROCESS.format(2) * 3 + PROCESS.format("N/A")))
    made = node.measure()
    assert (made["MigDevicesInUse"], made["IdleSeconds"]) == (1, 0)


@pytest.mark.parametrize("xml", ["", "no driver", "<nvidia_smi_log><gpu>", "\0"])
def test_garbage_instead_of_xml(node: MeasuredNode, xml: str) -> None:
    node.settings["mig_count"] = "2"
    node.says(["0, [N/A], [N/A], 100.0, 40, 81920"], xml)
    made = node.measure()
    assert made["GpuPowerDrawWatts"] == 100
    assert not any(name.startswith("Mig") for name in made)


def test_counters_become_rates(node: MeasuredNode) -> None:
    node.efa("rdmap0s0", rx_bytes=1_000, tx_bytes=5, retrans_pkts=0, rx_drops=0, lifespan=12)
    node.efa("rdmap1s0", rx_bytes=0)
    node.lustre(0, 0)
    assert not any("PerSecond" in name for name in node.measure())
    node.efa("rdmap0s0", rx_bytes=61_000, tx_bytes=5, retrans_pkts=120, rx_drops=6)
    node.efa("rdmap1s0", rx_bytes=600)
    node.lustre(6_000_000, 60)
    made = node.measure()
    assert made["EfaReceivedBytesPerSecond"] == [1_000, 10]
    assert made["EfaTransmittedBytesPerSecond"] == 0
    assert made["EfaRetransmittedPacketsPerSecond"] == 2
    assert made["EfaReceiveDropsPerSecond"] == 0.1
    assert made["LustreReadBytesPerSecond"] == 100_000
    assert made["LustreWrittenBytesPerSecond"] == 1


def test_a_counter_that_was_set_back_begins_anew(node: MeasuredNode) -> None:
    node.efa("rdmap0s0", rx_bytes=1_000)
    node.measure()
    node.efa("rdmap0s0", rx_bytes=10)
    assert EFA_RECEIVED.name not in node.measure()
    node.efa("rdmap0s0", rx_bytes=70)
    assert node.measure()[EFA_RECEIVED.name] == 1


def test_garbage_in_counters(node: MeasuredNode) -> None:
    node.efa("rdmap0s0", rx_bytes="?")
    node.tool("lctl", "echo llite.a.stats=; echo 'read_bytes 1 samples [bytes] 1 1 many'; echo write_bytes")
    node.measure()
    assert not any("PerSecond" in name for name in node.measure())


def test_another_boot_forgets_the_counters(node: MeasuredNode) -> None:
    node.efa("rdmap0s0", rx_bytes=1_000)
    node.measure()
    node.write("proc/sys/kernel/random/boot_id", "boot-2\n")
    node.efa("rdmap0s0", rx_bytes=2_000)
    node.uptime = 0
    made = node.measure()
    assert EFA_RECEIVED.name not in made
    assert made["IdleSeconds"] == 60


def test_a_broken_reader_takes_only_its_own_metrics_away(node: MeasuredNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(collect, "efa_counters", broken)
    node.works(5)
    assert node.measure()["GpuUtilization"] == 5


def test_a_node_without_accelerators_measures_what_it_has(node: MeasuredNode) -> None:
    node.settings.update(accelerator="", efa_count="", mounts="")
    assert node.measure() == {}


@pytest.mark.parametrize(("severity", "unhealthy"), [(0, 0), (2, 0), (3, 1), (5, 1)])
def test_what_the_watchdog_found(node: MeasuredNode, severity: int, unhealthy: int) -> None:
    remember("watch", {"severity": severity, "at": node.uptime})
    made = node.measure()
    assert (made["NodeSeverity"], made["UnhealthyNodes"]) == (severity, unhealthy)


def booted(node: MeasuredNode, state: str = "ready", *, first: bool = True) -> None:
    """The boot checks ended now."""
    result = {"state": state, "boot_id": "boot-1", "first_boot": first, "uptime_seconds": int(node.uptime)}
    node.write("run/gpu-cluster/boot.json", json.dumps(result))


@pytest.mark.parametrize("severity", [0, 5])
def test_watchdog_that_died_does_not_say_the_same_for_ever(node: MeasuredNode, severity: int) -> None:
    booted(node)
    remember("watch", {"severity": severity, "at": node.uptime})
    seen = [node.measure() for _ in range(5)]
    assert [one["NodeSeverity"] for one in seen] == [severity] * 2 + [1] * 3
    assert [one["UnhealthyNodes"] for one in seen] == [int(severity == 5)] * 2 + [1] * 3


def test_watchdog_that_never_came_is_noticed(node: MeasuredNode) -> None:
    booted(node)
    seen = [node.measure() for _ in range(4)]
    assert ["NodeSeverity" in one for one in seen] == [False, False, True, True]
    assert seen[-1]["UnhealthyNodes"] == 1


def test_watchdog_that_comes_back_is_believed(node: MeasuredNode) -> None:
    booted(node)
    for _ in range(4):
        node.measure()
    remember("watch", {"severity": 0, "at": node.uptime})
    assert node.measure()["UnhealthyNodes"] == 0


@pytest.mark.parametrize(
    ("state", "first", "settings"),
    [("starting", True, {}), ("failed", True, {}), ("ready", True, {"watch": "off"})],
    ids=["booting", "launch given up", "off"],
)
def test_node_without_a_watchdog_to_expect_says_nothing(
    node: MeasuredNode, state: str, first: bool, settings: dict[str, str]
) -> None:
    booted(node, state, first=first)
    node.settings.update(settings)
    assert not any("NodeSeverity" in node.measure() for _ in range(5))


def test_watchdog_of_a_dry_run_is_heard(node: MeasuredNode) -> None:
    node.settings.update(watch="dry-run")
    remember("watch-dry-run", {"severity": 5, "at": node.uptime})
    assert node.measure()["UnhealthyNodes"] == 1


def test_the_watchdog_says_how_bad_it_is() -> None:
    cases = Cases(acts_from=Severity.REBOOT, report=lambda *_: None)
    assert cases.dump()["severity"] == 0
    lasting = [Symptom("ecc", Severity.MONITOR, "errors"), Symptom("gone", Severity.REPLACE, "lost")]
    cases.note("look", lasting)
    assert cases.dump()["severity"] == 5
    cases.act_done(["gone"])
    assert cases.dump()["severity"] == 5  # it still lasts
    cases.note("look", lasting[:1])
    assert cases.dump()["severity"] == 2
    cases.note("look", [])
    assert cases.dump()["severity"] == 0


def spooled() -> list[dict[str, Any]]:
    return [json.loads(json.loads(line)["message"]) for line in spool.take("events")]


def test_severe_xids_and_failed_boots_are_counted_as_they_happen(node: MeasuredNode) -> None:
    node.write("etc/gpu-cluster/node.env", "GPU_FLEET=trainers\n")
    events = Events(INSTANCE)
    events.write("watch", "seen", "Xid 79", symptom="xid-79-0000:10:1c", severity="replace")
    events.write("watch", "seen", "Xid 13", symptom="xid-13-0000:10:1c", severity="monitor")
    events.write("watch", "gone", "Xid 79", symptom="xid-79-0000:10:1c", severity="replace")
    events.write("watch", "seen", "ECC", symptom="ecc-reset", severity="reset")
    events.write("node", "failed", "driver: none")
    events.write("node", "ready")
    told = spooled()
    counted = [one for one in told if "_aws" in one]
    assert len(told) == 6
    assert [(one["Fleet"], one["InstanceId"]) for one in counted] == [("trainers", INSTANCE)] * 2
    assert counted[0]["Xids"] == counted[1]["BootFailures"] == 1
    for one in counted:
        check(one)
    assert "_aws" not in events.written[0]


def test_a_metric_has_at_most_a_hundred_values() -> None:
    made = record({GPU_UTILIZATION: [1.0] * 150, XIDS: []}, fleet="", instance_id="")
    assert len(made["GpuUtilization"]) == 100
    check(made)


def test_metrics_are_named_once_and_have_units() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    assert {metric.unit for metric in METRICS} <= UNITS


def test_the_command_prints_the_record(
    node: MeasuredNode, imds_server: str, imds: dict[str, str],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("GPU_CLUSTER_IMDS", imds_server)
    node.write("etc/gpu-cluster/node.env", "GPU_ACCELERATOR=gpu\nGPU_FLEET='my fleet'\n")
    node.works(5)
    assert main(["metrics", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["Fleet"] == "my fleet"
