"""What real tools print is read as people read it: every sample is fed to the part of the software that reads it.

A sample of a command that the software never runs counts as not read.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import replayed_smi
from cdk_gpu_clusters.node.gpunode import cuda, nvidia_smi
from cdk_gpu_clusters.node.gpunode.actions.kubernetes import Kubernetes
from cdk_gpu_clusters.node.gpunode.actions.kubernetes_api import Kubectl
from cdk_gpu_clusters.node.gpunode.actions.orchestrator import ActionError
from cdk_gpu_clusters.node.gpunode.actions.slurm import Slurm
from cdk_gpu_clusters.node.gpunode.boot.stage import State
from cdk_gpu_clusters.node.gpunode.boot.stages import probe_fabric, probe_gpus
from cdk_gpu_clusters.node.gpunode.checks.accelerators import (
    check_clocks,
    check_driver,
    check_gpus,
    check_mig,
    check_neuron,
    check_recovery,
)
from cdk_gpu_clusters.node.gpunode.checks.check import Check, Result, Severity
from cdk_gpu_clusters.node.gpunode.checks.links import check_fabric, check_nvlink, check_pcie
from cdk_gpu_clusters.node.gpunode.checks.memory import check_ecc, check_row_remapping, check_sram
from cdk_gpu_clusters.node.gpunode.checks.network import check_efa, check_efa_provider
from cdk_gpu_clusters.node.gpunode.checks.verify import verify
from cdk_gpu_clusters.node.gpunode.drain import Endings
from cdk_gpu_clusters.node.gpunode.lustre import interfaces
from cdk_gpu_clusters.node.gpunode.metrics.collect import measure_mig_devices
from cdk_gpu_clusters.node.gpunode.node import Aws, AwsError, Metadata, Node, Settings
from cdk_gpu_clusters.node.gpunode.watch.probes import probe_lustre_client
from efa_sysfs import add_device
from tool_output import Sample, read_by, samples

_NVLINK_GBYTES_PER_S = {"V100-SXM": "300", "A100-SXM": "600", "H100": "900", "H200": "900", "H800": "400"}

_SERVICE = "LoadState=loaded\nUnitFileState=enabled\nConditionResult=yes\nActiveState={state}\n"


class Replay:
    """A node whose tools print samples."""

    def __init__(self, root: Path, tools: Path) -> None:
        self.root, self.tools = root, tools

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def tool(self, name: str, *, output: str = "", errors: str = "", status: int = 0) -> None:
        """A program that prints what a sample has."""
        self.write(f"printed/{name}.out", output)
        self.write(f"printed/{name}.err", errors)
        printed = self.root / "printed" / name
        (self.tools / name).write_text(f"#!/bin/sh\ncat {printed}.out\ncat {printed}.err >&2\nexit {status}\n")
        (self.tools / name).chmod(0o755)

    def prints(self, name: str, sample: Sample) -> None:
        """The same, of a sample."""
        status = sample.status if sample.status is not None else int(sample.stream == "stderr")
        if sample.stream == "stderr":
            self.tool(name, errors=sample.text, status=status)
        else:
            self.tool(name, output=sample.text, status=status)

    def node(self, **settings: object) -> Node:
        values = {name: str(value) for name, value in settings.items()}
        return Node(Settings(values), Metadata(), "i-1", Aws("us-east-1"))


@pytest.fixture
def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Replay:
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    made = Replay(tmp_path, tools)
    made.write("proc/uptime", "100.00 50.00\n")
    made.write("proc/sys/kernel/random/boot_id", "boot-1\n")
    made.tool("systemctl", output=_SERVICE.format(state="active"))
    made.tool("journalctl")
    return made


_GPU_CHECKS: dict[str, Check] = {
    "gpus": check_gpus,
    "driver": check_driver,
    "recovery": check_recovery,
    "ecc": check_ecc,
    "sram": check_sram,
    "row-remapping": check_row_remapping,
    "clocks": check_clocks,
    "pcie": check_pcie,
    "fabric": check_fabric,
}


def agrees(verdict: str, results: Iterable[Result]) -> bool:
    """Whether results are what a person says.

    A part of an output leaves some checks without a value, which they report as UNKNOWN. What nobody can judge from an
    output alone must neither read as healthy nor cause an action.
    """
    found = [result.severity for result in results]
    worst = max(found, default=Severity.UNKNOWN)
    if verdict == "healthy":
        return Severity.OK in found and worst <= Severity.UNKNOWN
    if verdict == "unknown":
        return Severity.OK not in found and worst <= Severity.MONITOR
    return worst.name.lower() == verdict


def _nvlink_of(sample: Sample) -> str:
    """The bandwidth of the type; empty for cards, which have no NVLink unless somebody adds a bridge."""
    named = f"{sample.text} {sample.machine}"
    return next((value for name, value in _NVLINK_GBYTES_PER_S.items() if name in named), "")


# nvidia-smi


def _is_failure(sample: Sample) -> bool:
    """nvidia-smi failed as a whole: it prints the same for every command."""
    return sample.file.startswith("failed-") or "No devices were found" in sample.text


def judge_failure(replay: Replay, sample: Sample) -> None:
    replay.prints("nvidia-smi", sample)
    node = replay.node(accelerator="gpu", accelerator_count=8)
    assert agrees(sample.verdict, verify(node, {"gpus": check_gpus}))
    assert probe_gpus(node).state is State.WAITING


def judge_listing(replay: Replay, sample: Sample) -> None:
    replay.prints("nvidia-smi", sample)
    wanted = sample.values.get("mig_devices", 0)
    assert nvidia_smi.mig_device_count() == wanted
    assert agrees(sample.verdict, check_mig(replay.node(mig_count=wanted)))
    devices = cuda.devices_of(sample.text)
    assert sum(device.startswith("MIG-") for device in devices) == wanted
    assert len(devices) >= sample.values["gpus"]


def judge_details(replay: Replay, sample: Sample) -> None:
    cells = replayed_smi.cells_of_details(sample.text)
    replayed_smi.install(replay.tools, gpus=cells, details=replayed_smi.as_details(sample.text))
    node = replay.node(accelerator="gpu", accelerator_count=len(cells))
    if sample.verdict == "wait":
        assert probe_fabric(node).state is State.WAITING
        return
    results = verify(node, _GPU_CHECKS)
    assert agrees(sample.verdict, results), results


def judge_csv(replay: Replay, sample: Sample) -> None:
    cells = replayed_smi.cells_of_csv(sample.text)
    replayed_smi.install(replay.tools, gpus=cells)
    results = verify(replay.node(accelerator="gpu", accelerator_count=len(cells)), _GPU_CHECKS)
    known = [result for result in results if result.severity is not Severity.UNKNOWN]
    assert known, "no cell of it is read"
    assert agrees(sample.verdict, known), results


def judge_nvlink(replay: Replay, sample: Sample) -> None:
    count = len(re.findall(r"^GPU [0-9]+:", sample.text, re.MULTILINE))
    mode = {"mig.mode.current": "Enabled" if "MIG mode" in sample.text else "Disabled"}
    first = int(re.search(r"^GPU ([0-9]+):", sample.text, re.MULTILINE)[1])  # type: ignore[index]
    rows = [{"index": str(first + number), "memory.total": "1", **mode} for number in range(count)]
    replayed_smi.install(replay.tools, gpus=rows, nvlink=sample.text)
    wanted = sample.values.get("expected", count)
    node = replay.node(accelerator="gpu", accelerator_count=wanted, nvlink=_nvlink_of(sample))
    results = verify(node, {"nvlink": check_nvlink, "gpus": check_gpus})
    assert agrees(sample.verdict, results), results


def judge_xml(replay: Replay, sample: Sample) -> None:
    replay.prints("nvidia-smi", sample)
    found = {metric.name: values for metric, values in measure_mig_devices().items()}
    used = found["MigMemoryUsed"]
    assert len(used) == sample.values.get("mig_devices", 0)


Judge = Callable[[Replay, Sample], None]

_QUERIED = ("memory.total", "remapped_rows.pending", "fabric.state", "utilization.gpu", "pcie.link.width", "clocks")


def _smi_judge(sample: Sample) -> Judge | None:
    command = sample.command.removeprefix("nvidia-smi").strip()
    if _is_failure(sample):
        return judge_failure
    if command in ("-L", "--list-gpus"):
        return judge_listing
    if command.startswith("-q -x"):
        return judge_xml
    if command.startswith(("-q", "--query ")) and "|" not in command:
        return judge_details
    if command.startswith(("nvlink -s", "nvlink --status")):
        return judge_nvlink if _nvlink_of(sample) else None
    if command.startswith("--query-gpu="):
        return judge_csv
    return None


# The fabric


def judge_fabric_details(replay: Replay, sample: Sample) -> None:
    text = re.sub(r"^(?=Fabric)", "    ", sample.text, flags=re.MULTILINE)
    cells = replayed_smi.cells_of_details(text) if "grep" not in sample.command else _grepped(text)
    replayed_smi.install(replay.tools, gpus=cells, details=replayed_smi.as_details(text))
    _judge_fabric(replay, sample, len(cells))


def _grepped(text: str) -> list[dict[str, str]]:
    states = re.findall(r"State\s*: (.*?)\s*$", text, re.MULTILINE)
    statuses = re.findall(r"Status\s*: (.*?)\s*$", text, re.MULTILINE)
    return [{"fabric.state": one, "fabric.status": two} for one, two in zip(states, statuses, strict=True)]


def judge_fabric_csv(replay: Replay, sample: Sample) -> None:
    cells = replayed_smi.cells_of_csv(sample.text)
    replayed_smi.install(replay.tools, gpus=cells)
    _judge_fabric(replay, sample, len(cells))


def _judge_fabric(replay: Replay, sample: Sample, count: int) -> None:
    node = replay.node(accelerator="gpu", accelerator_count=count, nvlink=900)
    boot = probe_fabric(node)
    if sample.verdict == "wait":
        assert boot.state is State.WAITING
        assert check_fabric(node)[0].severity is Severity.RESET  # once it has lasted for minutes
    else:
        assert agrees(sample.verdict, verify(node, {"fabric": check_fabric}))
        assert (boot.state is State.OK) == (sample.verdict == "healthy")


def judge_manager(replay: Replay, sample: Sample) -> None:
    """The service on a node with NVSwitches, whose GPUs do not report a fabric."""
    replayed_smi.install(replay.tools, gpus=[{}] * 8)
    replay.write("sys/bus/pci/devices/0000:07:00.0/vendor", "0x10de\n")
    replay.write("sys/bus/pci/devices/0000:07:00.0/class", "0x068000\n")
    state = re.search(r"Active: (\w+)", sample.text)
    runs = sample.verdict == "healthy"
    replay.tool("systemctl", output=_SERVICE.format(state=state[1] if state else "active" if runs else "failed"))
    replay.tool("journalctl", output=sample.text)
    node = replay.node(accelerator="gpu", accelerator_count=8, nvlink=900)
    assert agrees(sample.verdict, check_fabric(node))
    assert (probe_fabric(node).state is State.OK) == runs


def _fabric_judge(sample: Sample) -> Judge | None:
    if sample.command.startswith("nvidia-smi -q"):
        return judge_fabric_details
    if sample.command.startswith("nvidia-smi --query-gpu"):
        return judge_fabric_csv
    return judge_manager if "fabricmanager" in sample.command else None


# EFA, Lustre, Neuron


def judge_fi_info(replay: Replay, sample: Sample) -> None:
    replay.prints("fi_info", sample)
    wanted = max(1, len(sample.values.get("domains", [])))
    for number in range(wanted):
        add_device(replay.root, f"rdmap{number}s0")
    results = check_efa_provider(replay.node(efa_count=wanted))
    assert agrees(sample.verdict, results), results


def judge_net_show(replay: Replay, sample: Sample) -> None:
    replay.prints("lnetctl", sample)
    found = interfaces()
    assert sum(one.is_up for one in found) == sample.values["up"]
    assert agrees(sample.verdict, [Result("lnet", Severity.OK if found else Severity.UNKNOWN, "")])


def judge_health(replay: Replay, sample: Sample) -> None:
    """The kernel has the same words in a file."""
    replay.write("sys/fs/lustre/health_check", sample.text.rpartition("health_check=")[2])
    assert [symptom.severity.name.lower() for symptom in probe_lustre_client()] == [sample.verdict]


def judge_neuron(replay: Replay, sample: Sample) -> None:
    replay.prints("neuron-ls", sample)
    wanted = sample.values.get("devices", 16)
    results = verify(replay.node(accelerator="neuron", accelerator_count=wanted), {"neuron": check_neuron})
    assert agrees(sample.verdict, results), results


# Instance metadata


class _Answers(Metadata):
    """Metadata with one answer."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__()
        self._path, self._text = path, text

    def get(self, path: str) -> str | None:
        return self._text if path == self._path else None


def judge_notice(replay: Replay, sample: Sample) -> None:
    path = sample.command.partition("meta-data/")[2]
    endings = Endings(Node(Settings({}), _Answers(path, sample.text), "i-1", Aws("")))
    ending, hint = endings.find(), endings.hint()
    verdict = "replace" if ending else "monitor" if hint else "healthy"
    assert verdict == sample.verdict
    for moment in (sample.values.get("time"), sample.values.get("noticeTime")):
        assert moment is None or moment in (hint or (ending.reason if ending else ""))


_NOTICES = ("spot/instance-action", "autoscaling/target-lifecycle-state", "events/recommendations/rebalance")


# AWS, Kubernetes and Slurm


def judge_aws(replay: Replay, sample: Sample) -> None:
    replay.prints("aws", sample)
    assert sample.verdict == "unknown"
    with pytest.raises(AwsError) as failure:
        Aws("us-east-1").call("ec2", "describe-instances")
    assert " ".join(sample.text.split())[:100] in str(failure.value)


def judge_kubectl(replay: Replay, sample: Sample) -> None:
    replay.prints("kubectl", sample)
    assert sample.verdict == "unknown"
    with pytest.raises(ActionError, match=re.escape(" ".join(sample.text.split())[:60])):
        Kubectl("none").nodes("")


def _other_judge(sample: Sample) -> Judge | None:
    if sample.tool == "efa":
        return judge_fi_info if sample.command.startswith("fi_info") else None
    if sample.tool == "lustre" and sample.command.startswith("lnetctl net show"):
        return judge_net_show
    if sample.tool == "lustre":
        return judge_health if "health_check" in sample.command else None
    if sample.tool == "neuron":
        return judge_neuron if sample.command.startswith("neuron-ls --json") else None
    if sample.tool == "imds":
        return judge_notice if sample.command.endswith(_NOTICES) else None
    if sample.tool == "aws_cli":
        return judge_aws if sample.command.startswith("aws ") else None
    if sample.tool == "kubectl_slurm" and sample.stream == "stderr":
        return judge_kubectl if sample.command.startswith("kubectl get") else None
    return None


_TOOLS = ("nvidia_smi", "fabric", "efa", "lustre", "neuron", "systemd", "imds", "aws_cli", "kubectl_slurm")


def judge_of(sample: Sample) -> Judge | None:
    """What reads a sample; None if the software never runs its command."""
    if sample.tool == "nvidia_smi":
        return _smi_judge(sample)
    return _fabric_judge(sample) if sample.tool == "fabric" else _other_judge(sample)


EVERY = [sample for tool in _TOOLS for sample in samples(tool)]
#: What a person sees in them is nothing that the software reads.
BEYOND = {"q-rtx4090-addressing-mode-error-535.txt": "no source names an action for an unknown addressing mode"}
READ = [sample for sample in EVERY if judge_of(sample) and sample.file not in BEYOND]
LEAST_READ = 65


@pytest.mark.parametrize("sample", READ, ids=lambda sample: f"{sample.tool}/{sample.file}")
def test_a_sample_is_read_as_a_person_reads_it(
    replay: Replay, sample: Sample, record_property: Callable[[str, object], None]
) -> None:
    judge = judge_of(sample)
    assert judge is not None
    judge(replay, sample)
    read_by(record_property, sample)


def test_samples_of_commands_that_are_never_run_are_listed_by_command() -> None:
    """Whoever makes the software run such a command has to read its samples, too."""
    unread = Counter(f"{sample.tool}: {sample.command}" for sample in EVERY if sample not in READ)
    for line, count in sorted(unread.items()):
        sys.stdout.write(f"not read by the software: {count} of {line}\n")
    assert len(READ) >= LEAST_READ
    run = ("nvidia-smi -L", "nvidia-smi -q -x", "aws ec2 ", "neuron-ls --json-output", "lnetctl net show")
    assert not [line for line in unread if line.partition(": ")[2].startswith(run)]


# Output that nobody can read. Nothing of it is healthy, and nothing of it takes a node out.

GARBAGE = {
    "empty": "",
    "truncated": "0, NVIDIA H100 80GB HBM3, GPU-5d5b",
    "half a json": '{"neuron_devices": [{"neuron_device": 0, "nc_cou',
    "localized": "Es wurden keine Ger\u00e4te gefunden\nGPU 0: L\u00fcfter aus\n",
    "hostile": "\x00\x1b[2J]0;\x07, ,,\n../../etc/passwd\nGPU 0: ${IFS}`id`\n\ud7ff" + "9" * 400 + "\n",
    "other program": "<!DOCTYPE html><html><title>401 - Unauthorized</title></html>\n",
    "deep json": "[" * 100_000,
    "wrong json": '{"items": [7], "neuron": null}',
    "huge": "0, 1, 2, 3, 4, 5\n" * 200_000,
}


@pytest.fixture(params=GARBAGE)
def garbage(request: pytest.FixtureRequest) -> str:
    return GARBAGE[request.param]


@pytest.mark.parametrize("status", [0, 9, 139])
def test_unreadable_output_of_nvidia_smi_is_never_healthy(replay: Replay, garbage: str, status: int) -> None:
    replay.tool("nvidia-smi", output=garbage, status=status)
    replay.tool("systemctl", output=garbage, status=status)
    node = replay.node(accelerator="gpu", accelerator_count=8, nvlink=900, mig_count=7)
    checks: dict[str, Check] = {**_GPU_CHECKS, "nvlink": check_nvlink, "mig": check_mig}
    results = verify(node, checks)
    assert {result.check for result in results} == set(checks)
    assert {result.severity for result in results} == {Severity.UNKNOWN}, results
    assert probe_gpus(node).state is State.WAITING
    assert probe_fabric(node).state is State.WAITING


def test_unreadable_output_of_other_tools_is_never_healthy(replay: Replay, garbage: str) -> None:
    for tool in ("neuron-ls", "fi_info", "kubectl", "sinfo", "aws", "lnetctl"):
        replay.tool(tool, output=garbage)
    add_device(replay.root, "rdmap0s0")
    neuron = verify(replay.node(accelerator="neuron", accelerator_count=16), {"neuron": check_neuron})
    assert [result.severity for result in neuron] == [Severity.UNKNOWN]
    [provider] = check_efa_provider(replay.node(efa_count=1))
    assert provider.severity in (Severity.UNKNOWN, Severity.MONITOR)
    assert interfaces() == []
    with pytest.raises(ActionError):
        Slurm(replay.node(node_name="n1")).why_out()
    with pytest.raises(ActionError):
        Kubernetes(replay.node(kubeconfig="none")).why_out()
    if garbage and garbage != GARBAGE["wrong json"]:
        with pytest.raises(AwsError):
            Aws("us-east-1").call("ec2", "describe-instances")


_WARNING = "/usr/lib/python3/dist-packages/x.py:7: DeprecationWarning: datetime.utcnow() is deprecated\n"


def test_a_warning_on_stderr_changes_no_answer(replay: Replay) -> None:
    """It made every launch be abandoned when it was read as a part of the answer."""
    replay.tool("aws", output='{"Reservations": []}', errors=_WARNING)
    assert Aws("us-east-1").call("ec2", "describe-instances") == {"Reservations": []}
    replay.tool("neuron-ls", output='[{"neuron_device": 0}]', errors=_WARNING)
    [result] = check_neuron(replay.node(accelerator_count=1))
    assert result.severity is Severity.OK
    nodes = {"items": [{"metadata": {"name": "n1"}, "spec": {"providerID": "aws:///us-east-1a/i-1"}}]}
    replay.tool("kubectl", output=json.dumps(nodes), errors=_WARNING)
    assert Kubernetes(replay.node()).why_out() == ""
    replay.tool("nvidia-smi", output="0, NVIDIA H100, GPU-1, 81559\n", errors=_WARNING)
    [result] = check_gpus(replay.node(accelerator_count=1))
    assert result.severity is Severity.OK


def test_missing_tools_are_never_healthy(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(replay.root / "none"))
    node = replay.node(accelerator="gpu", accelerator_count=8, nvlink=900, mig_count=7)
    results = verify(node, {**_GPU_CHECKS, "nvlink": check_nvlink, "mig": check_mig, "neuron": check_neuron})
    assert {result.severity for result in results} == {Severity.UNKNOWN}
    with pytest.raises(AwsError, match="not found: aws"):
        Aws("us-east-1").call("ec2", "describe-instances")


@pytest.mark.parametrize("name", ["rdmap16s27", "rdmaP1p2s0", "rdmao4", "rdmas16", "efa_0"])
def test_efa_is_known_by_its_pci_ids_not_by_its_name(replay: Replay, name: str) -> None:
    """rdma-core, kernel-boot/rdma_rename.c, has all of these forms."""
    add_device(replay.root, name)
    add_device(replay.root, "ibp16s0")
    assert check_efa(replay.node(efa_count=1))[0].found == "1 EFA devices"


def test_a_corrupted_inforom_is_known_from_each_real_line(replay: Replay) -> None:
    """NVIDIA replaces the GPU. It works on, so a node in service is watched, and a new one not accepted."""
    lines = [
        line for sample in samples("nvidia_smi") for line in sample.text.splitlines() if "infoROM is corrupted" in line
    ]
    assert lines
    for line in lines:
        replay.tool("nvidia-smi", output=f"0, NVIDIA H100, GPU-1, 81559\n{line}\n", status=14)
        [result] = check_gpus(replay.node(accelerator_count=1))
        assert (result.severity, result.is_acceptable) == (Severity.MONITOR, False)


FOR_PEOPLE = [
    sample
    for sample in EVERY
    if sample.tool == "nvidia_smi" and judge_of(sample) is None and not sample.command.startswith("nvidia-smi nvlink")
]


@pytest.mark.parametrize("sample", FOR_PEOPLE, ids=lambda sample: sample.file)
def test_output_of_another_command_is_no_answer(replay: Replay, sample: Sample) -> None:
    """A wrapper around nvidia-smi may drop its arguments. Such output must neither read as healthy nor cause an action."""
    replay.tool("nvidia-smi", output=sample.text)
    node = replay.node(accelerator="gpu", accelerator_count=8, nvlink=900, mig_count=7)
    results = verify(node, {**_GPU_CHECKS, "nvlink": check_nvlink, "mig": check_mig})
    assert {result.severity for result in results} == {Severity.UNKNOWN}, results


@pytest.mark.parametrize("sample", [one for one in EVERY if one.command.startswith(("sinfo", "squeue", "scontrol"))])
def test_other_forms_of_slurm_are_no_answer(replay: Replay, sample: Sample) -> None:
    replay.prints("sinfo", sample)
    with pytest.raises(ActionError):
        Slurm(replay.node(node_name="cs422")).why_out()


@pytest.mark.parametrize(
    "sample", [one for one in EVERY if one.command.startswith("neuron-ls") and judge_of(one) is None]
)
def test_tables_of_neuron_are_no_answer(replay: Replay, sample: Sample) -> None:
    replay.prints("neuron-ls", sample)
    results = verify(replay.node(accelerator="neuron", accelerator_count=16), {"neuron": check_neuron})
    assert [result.severity for result in results] == [Severity.UNKNOWN]
