"""Nodes of each orchestrator on the rungs of the repair ladder, with jobs that their orchestrator has given them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from cdk_gpu_clusters import NodeWatch, Orchestrator
from nodebox.eks import NAME, eks_node, joined, managed
from nodebox.groups import group, make_pcs
from nodebox.lab import Lab, fleet
from nodebox.node import STATE, Node
from nodebox.outside import OutsidePrograms
from services.kubernetes import Kubernetes
from services.programs import install_kubectl
from services.slurm import Job, Slurm

WATCH = "gpu-node-watch"
#: Messages of the driver that require a repair: Xids 119, 154 and 79.
RESET = "119, pid=4711, name=python3, Timeout after 6s of waiting for RPC response from GPU0 GSP!"
REBOOT = "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
REPLACE = "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
#: How long jobs may go on before a reboot.
GRACE_SECONDS = 10
_L4: dict[str, Any] = {"gpu": "L4", "gpu_count": 4, "kernel_log": True}
_INSTANCE_TYPE = "g6.12xlarge"
_JOB_UNIT = "training.service"
# Where the nodes find Slurm's programs, and the folder of AWS PCS for them.
_SLURM_ADDRESS, _SLURM_FOLDER = "10.77.0.6", "/opt/aws/pcs/scheduler/slurm-25.11/bin"
_SLURM_PROGRAMS = ("sinfo", "scontrol", "scancel")


def watch_of_repairs(**options: Any) -> NodeWatch:
    """The watchdog of these nodes, in a hurry."""
    given = {"interval_seconds": 1, "job_seconds": 1, "repair_wait_seconds": GRACE_SECONDS, **options}
    return NodeWatch(**given)


def fail(node: Node, xid: str) -> None:
    """Have the driver report a fault of one GPU."""
    node.kernel_says(f"NVRM: Xid (PCI:{address_of_a_device()}): {xid}")


def address_of_a_device() -> str:
    """An address on the bus of this machine, which its booted nodes see; any, if it has no PCI."""
    devices = sorted(device.name for device in Path("/sys/bus/pci/devices").glob("*"))
    return devices[0].rpartition(".")[0] if devices else "0000:00:1e"


def outcomes(node: Node) -> list[str]:
    """Outcomes of the watchdog's actions."""
    return [state for stage, state, _ in node.events(WATCH) if stage == "action"]


def steps(node: Node) -> list[str]:
    """Steps of its repairs."""
    return [state for stage, state, _ in node.events(WATCH) if stage == "repair"]


def step_now(node: Node) -> str:
    """The step that is on the node's disk; empty if no repair goes on."""
    current = json.loads(node.read(f"{STATE}/repairs.json") or "{}").get("current")
    return current["step"] if current else ""


def wait_for_step(node: Node, step: str) -> None:
    """Wait for a step without the pauses of `Node.eventually`: a node reboots quickly."""
    end = time.monotonic() + node.patience_seconds
    while step_now(node) != step:
        assert time.monotonic() < end, node.last_words()
        time.sleep(0.02)


def repairs(node: Node) -> list[tuple[str, str]]:
    """Rung and end of each repair that is on the node's disk, and that ended."""
    past = json.loads(node.read(f"{STATE}/repairs.json") or "{}").get("past", [])
    return [(one["rung"], one["end"]) for one in past]


def resets(node: Node) -> int:
    """How many times the driver was asked for a reset of the GPUs."""
    return sum(call == "--gpu-reset" for call in node.gpus.state["log"])


def look_again(node: Node) -> None:
    """Kill the watchdog. The next one goes on at once, without the minute between two looks at a job."""
    node.run(f"systemctl kill --signal=KILL {WATCH}; systemctl restart {WATCH}")


def forget(node: Node) -> None:
    """Have the watchdog know of no earlier repair."""
    node.run(
        f"systemctl stop {WATCH}; rm -f {STATE}/repairs.json /run/gpu-cluster/repairs.json; systemctl start {WATCH}"
    )
    node.gpus.state["log"].clear()


class PowerCut:
    """Cuts the power of a node in a step of its repair, at the first call of a program with some words.

    What the program does is done then, and the node does not get its answer.
    """

    def __init__(self, node: Node, programs: OutsidePrograms) -> None:
        self._node, self._lock = node, threading.Lock()
        self._step = self._words = ""
        node.gpus.after_call = programs.after_call = self._called

    def expect(self, step: str, words: str) -> None:
        """Wait for a step, from now on."""
        self._step, self._words = step, words

    def _called(self, call: str) -> None:
        with self._lock:
            if self._step and self._words in call and step_now(self._node) == self._step:
                self._step = ""
                self._node.power_off()


class Workplace(Protocol):
    """A node and what gives it jobs."""

    node: Node

    def begin_job(self) -> None:
        """Give the node a job, which runs until it gets the order to end."""

    def runs(self) -> bool:
        """Whether the last job still runs."""

    def end_job(self) -> None:
        """Have the job come to its own end."""

    def held_for(self) -> str:
        """The repair for which new work is kept away from the node; empty if it gets work."""

    def rebooted(self) -> None:
        """Called when the next boot has begun, and its daemons start."""


class OnEc2:
    """A node of an Auto Scaling group. Its jobs are units, and nothing but the group knows that it is to go."""

    def __init__(self, node: Node) -> None:
        self.node = node
        node.fleet.keep_unhealthy()

    @classmethod
    @contextmanager
    def booted(cls, lab: Lab, directory: Path) -> Iterator[Workplace]:  # noqa: ARG003 - nothing is kept outside it
        watch = watch_of_repairs(job_units=(_JOB_UNIT,))
        with lab.node(fleet(_INSTANCE_TYPE, efa=False, watch=watch), **_L4) as node:
            node.power_on()
            node.ready()
            node.in_service()
            yield cls(node)

    def begin_job(self) -> None:
        self.node.run(f"systemd-run --unit={_JOB_UNIT} sleep infinity")

    def runs(self) -> bool:
        return self.node.unit(_JOB_UNIT, "ActiveState") == "active"

    def end_job(self) -> None:
        self.node.run(f"systemctl stop {_JOB_UNIT}")

    def held_for(self) -> str:
        assert self.node.fleet.states() == {self.node.instance_id: "InService"}
        return "replace" if self.node.fleet.health() == {self.node.instance_id: "Unhealthy"} else ""

    def rebooted(self) -> None:
        pass


class OnSlurm:
    """A node of AWS PCS, in front of a real controller of Slurm.

    Attributes:
        slurm: Its cluster.
        programs: Slurm's programs that it calls.
    """

    NAME, OTHER = "gpu-1", "gpu-2"

    def __init__(self, node: Node, slurm: Slurm, programs: OutsidePrograms) -> None:
        self.node, self.slurm, self.programs = node, slurm, programs
        self._job: Job | None = None

    @classmethod
    @contextmanager
    def booted(cls, lab: Lab, directory: Path, **options: Any) -> Iterator[OnSlurm]:
        build = group(Orchestrator.PCS, _INSTANCE_TYPE, slurm_version="25.11", watch=watch_of_repairs(**options))
        with Slurm(directory, cls.NAME, cls.OTHER) as slurm, lab.node(build, user_data=_named, **_L4) as node:
            programs = OutsidePrograms({name: slurm.programs / name for name in _SLURM_PROGRAMS}, slurm.environment)
            make_pcs(node)
            for name in _SLURM_PROGRAMS:
                node.write(f"{_SLURM_FOLDER}/{name}", programs.client(name, _SLURM_ADDRESS), 0o755)
            server = programs.serve(node.network.listen(_SLURM_ADDRESS, 80))
            try:
                node.power_on()
                node.ready()
                slurm.reboot(cls.NAME)
                yield cls(node, slurm, programs)
            finally:
                server.close()

    def begin_job(self) -> None:
        self._job = self.slurm.run_job(self.NAME)

    def runs(self) -> bool:
        assert self._job
        return self.slurm.job_state(self._job.id) == "RUNNING"

    def end_job(self) -> None:
        assert self._job
        self._job.end.touch()
        self.slurm.eventually(lambda: not self.runs())
        assert self._job.output.read_text() == "done\n"

    def held_for(self) -> str:
        state, reason = self.slurm.node(self.NAME)
        if "DRAIN" not in state:
            assert state in ("IDLE", "MIXED", "IDLE+NOT_RESPONDING"), f"{state}: {reason}"
            return ""
        signature, rung, _ = reason.split(": ", 2)
        assert signature == "gpunode"
        return rung

    def rebooted(self) -> None:
        self.slurm.reboot(self.NAME)


def _named(user_data: str) -> str:
    """The user data of a node that finds itself by its name in Slurm, not by its address."""
    return user_data.replace("GPU_ORCHESTRATOR=pcs", f"GPU_ORCHESTRATOR=pcs\n    GPU_NODE_NAME={OnSlurm.NAME}")


class OnEks:
    """A node of Amazon EKS, with its kubelet's identity."""

    _JOB, _OTHER = ("research", "trainer-0"), ("research", "trainer-1")

    def __init__(self, node: Node, cluster: Kubernetes) -> None:
        self.node, self._cluster = node, cluster
        node.gpus.state["reset_needs"] = "down"  # this image starts a fabric manager only where there are switches
        cluster.pods = {self._OTHER: "another"}

    @classmethod
    @contextmanager
    def booted(cls, lab: Lab, directory: Path) -> Iterator[Workplace]:
        build = managed("g6.xlarge", efa=False, scratch=False, watch=watch_of_repairs())
        options = {**_L4, "gpu_count": 1, "binds": {"/usr/local/bin/kubectl": install_kubectl(directory / "programs")}}
        with Kubernetes(directory) as cluster, eks_node(lab, cluster, build, **options) as node:
            node.power_on()
            node.ready()
            joined(node, cluster)
            yield cls(node, cluster)

    def begin_job(self) -> None:
        self._cluster.pods[self._JOB] = NAME

    def runs(self) -> bool:
        assert self._OTHER in self._cluster.pods
        return self._JOB in self._cluster.pods

    def end_job(self) -> None:
        del self._cluster.pods[self._JOB]

    def held_for(self) -> str:
        condition = self._cluster.condition(NAME, "GpuHealthy")
        held = condition["reason"].lower() if condition.get("status") == "False" else ""
        assert self._cluster.is_cordoned(NAME) is bool(held)
        return held

    def rebooted(self) -> None:
        pass
