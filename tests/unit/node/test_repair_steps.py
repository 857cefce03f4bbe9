"""What a repair does on the node: who works there, what suspends it, and the reset of its GPUs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.actions.auto_scaling import AutoScaling
from cdk_gpu_clusters.node.gpunode.actions.orchestrator import ActionError
from cdk_gpu_clusters.node.gpunode.boot.stage import Stage, Verdict
from cdk_gpu_clusters.node.gpunode.events import Events
from cdk_gpu_clusters.node.gpunode.repair.steps import Steps, local_work, reset_gpus, why_suspended
from watched_node import WatchedNode

CLIENTS = ("nvidia-persistenced", "nvidia-dcgm", "dcgm", "dcgm-exporter", "nvsm")


class Node(WatchedNode):
    """A node with processes."""

    def process(self, pid: int, name: str, *open_files: str, age_seconds: float = 5) -> None:
        ticks = int((time.monotonic() + 1e6 - age_seconds) * 100)
        self.write(f"proc/{pid}/comm", f"{name}\n")
        self.write(f"proc/{pid}/stat", f"{pid} ({name}) S {' '.join(['0'] * 18)} {ticks} 0\n")
        for number, target in enumerate(open_files):
            link = self.root / f"proc/{pid}/fd/{number}"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)

    def systemd(self, *enabled: str) -> None:
        cases = "|".join(enabled) or "-"
        self.tool(
            "systemctl",
            f'#!/bin/sh\ncase "$1" in is-active) exit 3 ;; is-enabled) case "$3" in {cases}) exit 0 ;; esac; exit 1 ;; esac\n'
            f'echo "systemctl $*" >>{self.root}/calls\n',
        )

    def smi(self, *refusals: int) -> None:
        """nvidia-smi that refuses so many resets, as NVSentinel issue 1690 has it."""
        self.tool(
            "nvidia-smi",
            f'#!/bin/sh\necho "nvidia-smi $*" >>{self.root}/calls\nread -r left <{self.root}/refusals\n'
            f'if [ "$left" -gt 0 ]; then echo $((left - 1)) >{self.root}/refusals\n'
            "echo 'The following GPUs could not be reset:'; echo '  GPU 00000000:1A:00.0: In use by another client'; exit 255; fi\n"
            "echo 'GPU 00000000:1A:00.0 was successfully reset.'\n",
        )
        self.write("refusals", f"{sum(refusals)}\n")

    @property
    def calls(self) -> list[str]:
        file = self.root / "calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imds: dict[str, str], imds_server: str) -> Node:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    monkeypatch.setenv("GPU_CLUSTER_IMDS", imds_server)
    made = Node(tmp_path)
    monkeypatch.setattr("cdk_gpu_clusters.node.gpunode.paths.uptime_seconds", lambda: time.monotonic() + 1e6)
    made.systemd()
    return made


def test_a_node_without_processes_on_its_gpus_is_idle(node: Node) -> None:
    node.process(7, "bash", "/dev/null", "/home/kim/nvidia-uvm")
    node.process(8, "nv-hostengine", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
    node.process(9, "device-plugin", "/dev/nvidiactl", "/dev/nvidia0")
    node.write("proc/not-a-pid/comm", "python\n")
    assert local_work(node.node()) == ""


@pytest.mark.parametrize("device", ["/dev/nvidia-uvm", "/dev/neuron0"])
def test_a_process_that_computes_is_work_whoever_started_it(node: Node, device: str) -> None:
    node.process(7, "python", "/dev/null", device)
    assert local_work(node.node()) == "a process on the GPUs: python (7)"


class Jobs:
    """An orchestrator with or without jobs on this node."""

    def __init__(self, words: str = "", *, knows_jobs: bool = True) -> None:
        self.words, self.knows_jobs = words, knows_jobs

    def busy(self) -> str:
        return self.words


@pytest.mark.parametrize(
    ("orchestrator", "is_leftover"),
    [(Jobs(), True), (Jobs("pods with accelerators: ml/trainer"), False), (Jobs(knows_jobs=False), False)],
)
def test_a_process_is_left_over_if_the_orchestrator_knows_of_no_job(
    node: Node, orchestrator: Any, is_leftover: bool
) -> None:
    node.process(7, "python", "/dev/nvidia-uvm")
    steps = Steps(node.node(), Events("i-1"), orchestrator)
    assert steps.is_leftover() is is_leftover


def test_an_mps_server_without_clients_is_no_work(node: Node) -> None:
    node.process(7, "nvidia-cuda-mps", "/dev/nvidia-uvm")
    assert local_work(node.node()) == ""


def test_a_reset_that_is_refused_for_another_reason_is_not_repeated(node: Node) -> None:
    """As on a virtual machine whose hypervisor permits none."""
    node.tool("nvidia-smi", f'#!/bin/sh\necho "nvidia-smi $*" >>{node.root}/calls\necho Unknown Error\nexit 255\n')
    node.systemd("nvidia-fabricmanager", "nvidia-dcgm")
    assert "Unknown Error" in reset_gpus()
    assert node.calls == ["nvidia-smi --gpu-reset"]


def test_a_unit_of_jobs_is_work(node: Node) -> None:
    assert local_work(node.node(job_units="training.service")) == ""
    node.tool("systemctl", '#!/bin/sh\n[ "$*" = "is-active --quiet training.service" ]\n')
    assert local_work(node.node(job_units="etl.service training.service")) == "running: training.service"


def test_a_node_is_repaired_unless_something_speaks_against_it(node: Node) -> None:
    node.process(7, "python", "/dev/nvidia-uvm")
    assert why_suspended(node.node()) == ""


def test_a_maintenance_file_suspends_with_its_text(node: Node) -> None:
    file = node.write("etc/gpu-cluster/maintenance", "new cables,\n\x1b[31mKim\x00\n" + "x" * 10_000)
    words = why_suspended(node.node())
    assert words.startswith("maintenance: new cables, Kim x")
    assert len(words) < 250
    file.write_text("")
    assert why_suspended(node.node()) == f"maintenance: {file}"
    file.unlink()
    assert why_suspended(node.node()) == ""


def test_a_setting_suspends(node: Node) -> None:
    assert why_suspended(node.node(maintenance="new switches")) == "maintenance: new switches"


def test_a_tag_of_the_instance_suspends(node: Node, imds: dict[str, str]) -> None:
    imds["tags/instance/gpu-clusters:maintenance"] = "rack 7"
    assert why_suspended(node.node()) == "maintenance: rack 7"


def test_the_end_of_the_node_suspends(node: Node) -> None:
    node.write("run/gpu-cluster/ending", "spot-interruption\n")
    assert why_suspended(node.node()) == "this node is about to end: spot-interruption"


@pytest.mark.parametrize("name", ["dnf", "apt-get", "dpkg", "nvidia-installe", "rmmod", "dkms"])
def test_a_change_of_the_driver_suspends_until_it_is_over(node: Node, name: str) -> None:
    node.process(7, name)
    assert why_suspended(node.node()) == f"the driver may be changing: {name} runs"
    node.write("proc/7/comm", "bash\n")
    assert why_suspended(node.node()) == ""


def test_a_program_that_hangs_in_a_broken_driver_does_not_suspend_for_ever(node: Node) -> None:
    node.process(7, "modprobe", age_seconds=3599)
    assert why_suspended(node.node())
    node.process(7, "modprobe", age_seconds=3700)
    assert why_suspended(node.node()) == ""


def test_a_reset_is_one_command_for_all_gpus_and_stops_nothing_if_it_succeeds(node: Node) -> None:
    node.systemd("nvidia-fabricmanager", *CLIENTS)
    node.smi()
    assert reset_gpus() == ""
    assert node.calls == ["nvidia-smi --gpu-reset"]


def test_what_keeps_the_gpus_open_is_stopped_for_the_reset_and_started_again(node: Node) -> None:
    node.systemd("nvidia-fabricmanager", "nvidia-persistenced", "nvidia-dcgm")
    node.smi(1)
    assert reset_gpus() == ""
    assert node.calls == [
        "nvidia-smi --gpu-reset",
        "systemctl stop nvidia-persistenced",
        "systemctl stop nvidia-dcgm",
        "nvidia-smi --gpu-reset",
        "systemctl start nvidia-dcgm",
        "systemctl start nvidia-persistenced",
    ]


def test_the_fabric_manager_is_stopped_last_and_started_first(node: Node) -> None:
    node.systemd("nvidia-fabricmanager", "nvidia-persistenced")
    node.smi(2)
    assert reset_gpus() == ""
    assert node.calls[-5:] == [
        "systemctl stop nvidia-persistenced",
        "systemctl stop nvidia-fabricmanager",
        "nvidia-smi --gpu-reset",
        "systemctl start nvidia-fabricmanager",
        "systemctl start nvidia-persistenced",
    ]


def test_a_reset_that_is_refused_has_its_reason_and_everything_runs_again(node: Node) -> None:
    node.systemd("nvidia-fabricmanager")
    node.smi(9)
    assert "In use by another client" in reset_gpus()
    assert node.calls[-1] == "systemctl start nvidia-fabricmanager"


def steps(node: Node, *stages: Stage, **settings: str) -> Steps:
    mine = node.node(**settings)
    return Steps(mine, node.told, AutoScaling(mine), stages=lambda _: list(stages))


def test_mig_devices_are_made_again_after_a_reset(node: Node) -> None:
    node.smi()
    assert steps(node, mig_count="7").reset() == ""
    assert node.calls[-1] == "systemctl restart gpu-mig.service"
    node.tool("systemctl", "#!/bin/sh\necho failed; exit 1\n")
    assert steps(node, mig_count="7").reset() == "gpu-mig: failed"


def test_the_boot_checks_are_repeated(node: Node) -> None:
    assert steps(node, Stage("driver", lambda _: Verdict.ok("8 GPUs"))).check() == ""
    bad = Stage("cuda", lambda _: Verdict.failed("CUDA does not start", "reboot"))
    assert steps(node, bad).check() == "cuda: CUDA does not start"


def test_a_reboot_is_asked_of_systemd(node: Node) -> None:
    steps(node).reboot()
    assert node.calls == ["systemctl --no-block reboot"]
    node.tool("systemctl", "#!/bin/sh\necho 'Access denied' >&2; exit 1\n")
    with pytest.raises(ActionError, match="systemctl reboot: Access denied"):
        steps(node).reboot()


@pytest.mark.parametrize("state", ["ready", "failed", "starting"])
def test_the_result_of_this_boot_counts_and_no_other(node: Node, state: str) -> None:
    result: dict[str, Any] = {"boot_id": "boot-1", "state": state}
    node.write("run/gpu-cluster/boot.json", json.dumps(result))
    assert steps(node).boot_result() == state
    node.write("proc/sys/kernel/random/boot_id", "boot-2\n")
    assert steps(node).boot_result() == ""
