"""What a repair does on the node: find what runs, reset the GPUs, reboot, repeat the boot checks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from .. import jobs, nvml, paths
from ..actions.orchestrator import ActionError, Orchestrator
from ..boot.boot import first_failure
from ..boot.stage import Stage
from ..boot.stages import stages_of
from ..command import Outcome, run
from ..cores import on_all_cores
from ..drain import end_work
from ..driver_change import program_at_work
from ..events import Events
from ..node import Node
from ..quoting import one_line
from ..state import announced, boot_result

# As in drain.py.
_WORK_SECONDS = 15
# NVIDIA states no time for a reset. It takes seconds for a GPU, and mig-apply.sh allows two minutes.
_RESET_SECONDS = 300
# This process shuts NVML down two seconds after its last question.
_RELEASE_SECONDS = 30
_UNIT_SECONDS = 120
# gpu-mig.service, TimeoutStartSec.
_MIG_SECONDS = 1200
# CUDA and the verification have two minutes each in a boot (boot/stages.py), and the fabric manager starts before.
_CHECK_SECONDS = 300
_SYNC_SECONDS = 30


class Steps:
    """The steps on this node."""

    def __init__(
        self,
        node: Node,
        events: Events,
        orchestrator: Orchestrator,
        *,
        stages: Callable[[Node], Iterable[Stage]] = stages_of,
    ) -> None:
        """Prepare them.

        Args:
            stages: The boot checks.
        """
        self._node, self._events, self._orchestrator = node, events, orchestrator
        self._stages = stages

    def why_suspended(self) -> str:
        """Why nothing is repaired now; empty if repairs may go on."""
        return why_suspended(self._node)

    def work(self) -> str:
        """What runs on the node, by its processes and by its orchestrator; empty if it is idle.

        Raises:
            ActionError: If the orchestrator does not answer.
        """
        return local_work(self._node) or self._orchestrator.busy()

    def is_leftover(self) -> bool:
        """Whether what runs is no job, as far as an orchestrator that knows its jobs can tell.

        Raises:
            ActionError: If the orchestrator does not answer.
        """
        return self._orchestrator.knows_jobs and not (local_jobs(self._node) or self._orchestrator.busy())

    def end_work(self) -> None:
        """End the jobs as a drain does: SIGTERM, and their grace (`GPU_JOB_SECONDS`)."""
        seconds = self._node.settings.number("job_seconds", _WORK_SECONDS)
        end_work(self._node, self._events, self._orchestrator, seconds)

    def reset(self) -> str:
        """Reset the GPUs of the idle node.

        Returns:
            Why it failed; empty if it did not.
        """
        fault = reset_gpus()
        if not fault and self._node.settings.number("mig_count"):
            # A reset removes the MIG devices.
            made = run("systemctl", "restart", "gpu-mig.service", timeout_seconds=_MIG_SECONDS)
            return "" if made.ok else f"gpu-mig: {made.words}"
        return fault

    def reboot(self) -> None:
        """Ask the orchestrator for a reboot, or systemd.

        Raises:
            ActionError: If it refuses.
        """
        run("sync", timeout_seconds=_SYNC_SECONDS)
        if self._orchestrator.reboot():
            return
        outcome = run("systemctl", "--no-block", "reboot", timeout_seconds=_UNIT_SECONDS)
        if not outcome.ok:
            raise ActionError(f"systemctl reboot: {outcome.words}")

    def boot_result(self) -> str:
        """The result of the checks of this boot: `starting`, `ready`, `failed`, or empty if there is none."""
        return str(boot_result().get("state", ""))

    def check(self) -> str:
        """Repeat the boot checks.

        Returns:
            Why the node is not ready; empty if it is.
        """
        until = paths.uptime_seconds() + _CHECK_SECONDS
        with on_all_cores():
            reason, _ = first_failure(self._node, self._events, self._stages, until)
        return reason


# The services that keep GPUs open without computing: NVIDIA/gpu-operator issue 118 and NVSentinel issue 1690
# (persistence daemon); NVIDIA/mig-parted stops the others before it changes the mode.
_CLIENTS = ("nvidia-persistenced", "nvidia-dcgm", "dcgm", "dcgm-exporter", "nvsm")
_FABRIC = "nvidia-fabricmanager"
# "In use by another client", "is currently being used by one or more other processes".
_IN_USE = re.compile(r"in use|being used", re.IGNORECASE)


def reset_gpus() -> str:
    """Reset all GPUs of the node in one command.

    All of them, not one: without a fabric manager, and before Ampere, every GPU with an NVLink connection to one that
    is reset must be in the same command. On Ampere's NVSwitch systems the fabric manager must run, later ones do not
    need it (nvidia-smi's own documentation, `--gpu-reset`). On an idle node that is right for all of them. What keeps a
    GPU open makes the driver refuse: then the services that do are stopped, at last the fabric manager, too.

    Only a refusal because of other clients is tried again: hypervisors refuse every reset (NVIDIA/ai-cloud-validation
    pull request 603), and a fabric manager that starts again without a reset leaves GPUs on which NCCL fails
    (NVIDIA/nccl issue 1488).

    Returns:
        Why it failed; empty if it did not.
    """
    if not nvml.wait(_RELEASE_SECONDS):
        return "a call of this process to the GPU driver does not return"
    outcome = Outcome(0, "")
    for stopped in ((), _CLIENTS, (*_CLIENTS, _FABRIC)):
        running = [unit for unit in stopped if _is_enabled(unit)]
        try:
            for unit in running:
                run("systemctl", "stop", unit, timeout_seconds=_UNIT_SECONDS)
            outcome = run("nvidia-smi", "--gpu-reset", timeout_seconds=_RESET_SECONDS)
        finally:
            # The fabric manager first: the others find GPUs that are joined.
            for unit in reversed(running):
                run("systemctl", "start", unit, timeout_seconds=_UNIT_SECONDS)
        if outcome.ok:
            return ""
        if outcome.hung or not _IN_USE.search(outcome.text):
            break
    return f"nvidia-smi --gpu-reset: {outcome.words or f'status {outcome.status}'}"


def _is_enabled(unit: str) -> bool:
    """Whether the image starts a unit. Not whether it runs: an interrupted reset may have stopped it."""
    return run("systemctl", "is-enabled", "--quiet", unit, timeout_seconds=_UNIT_SECONDS).ok


# Work of the node itself. A process that computes keeps /dev/nvidia-uvm open, which CUDA needs and programs that only
# monitor (NVML) do not. One that uses a Neuron device keeps that open. /proc needs no driver, which may hang.

_UVM, _NEURON = "/dev/nvidia-uvm", "/dev/neuron"
# Part of the driver's or monitoring software, by name (proc(5), `comm`: 15 characters).
# An MPS server keeps its context while no client computes.
_NO_WORK = (
    "nv-hostengine",
    "dcgm-exporter",
    "nv-fabricmanage",
    "nvidia-persiste",
    "nvidia-cuda-mps",
    "neuron-monitor",
    "neuron-ls",
)


def local_work(node: Node) -> str:
    """What runs on this node, whoever started it; empty if it is idle."""
    computing = _computing()
    if computing:
        return f"a process on the GPUs: {computing}"
    return local_jobs(node)


def local_jobs(node: Node) -> str:
    """The jobs that this node knows of; empty if there are none."""
    registered = jobs.running()
    if registered:
        return f"{len(registered)} jobs of gpunode run"
    units = node.settings.words("job_units")
    active = [unit for unit in units if run("systemctl", "is-active", "--quiet", unit).ok]
    return f"running: {' '.join(active)}" if active else ""


def _computing() -> str:
    for process in _processes():
        name = _name(process)
        if name not in _NO_WORK and process.name != str(os.getpid()) and _computes(process):
            return f"{name or 'unnamed'} ({process.name})"
    return ""


def _computes(process: Path) -> bool:
    with suppress(OSError):
        for file in (process / "fd").iterdir():
            with suppress(OSError):
                target = str(file.readlink())
                if target == _UVM or target.startswith(_NEURON):
                    return True
    return False


def _processes() -> Iterator[Path]:
    with suppress(OSError):
        yield from (path for path in paths.below("/proc").iterdir() if path.name.isdecimal())


def _name(process: Path) -> str:
    return paths.read_text(process / "comm").strip()


# People and programs that change the driver on purpose make a node look broken. Nothing is repaired meanwhile.

_TAG = "tags/instance/gpu-clusters:maintenance"
_LONGEST_REASON = 200


def why_suspended(node: Node) -> str:
    """Why nothing is repaired now: maintenance, a change of the driver, or the end of the node; empty for no reason."""
    ending = announced()
    if ending:
        return f"this node is about to end: {ending}"
    maintenance = _maintenance(node)
    if maintenance:
        return f"maintenance: {one_line(maintenance, _LONGEST_REASON)}"
    changing = program_at_work()
    return f"the driver may be changing: {changing} runs" if changing else ""


def _maintenance(node: Node) -> str:
    file = paths.below("/etc/gpu-cluster/maintenance")
    with suppress(OSError):
        if file.exists():
            with file.open(encoding="utf-8", errors="replace") as text:
                return text.read(_LONGEST_REASON).strip() or str(file)
    setting = node.settings.text("maintenance")
    if setting:
        return setting
    # Only if the instance allows tags in its metadata (AWS EC2 user guide, "View tags for your EC2 instances using
    # instance metadata").
    return (node.metadata.get(_TAG) or "").strip()
