"""The IMEX domain of a job on UltraServers, made by the prolog: memory of GPUs is shared with the job's nodes only.

Sources: AWS PCS user guide, "Configure UltraServer instances" (the prolog writes the addresses of the job's nodes, and
restarts the service); NVIDIA IMEX Service guide, "Deployment Models" (per job) and "IMEX Service Command Service".
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from .. import paths
from ..command import NOT_FOUND, run
from ..events import Events
from .commands import SlurmCommands, is_set

_PROC = Path("/proc")
_NODES = "/etc/nvidia-imex/nodes_config.cfg"
_UNIT = "nvidia-imex.service"
_RESTART_SECONDS = 30
# The prologs of the other nodes restart theirs at the same time.
_READY_SECONDS, _PAUSE_SECONDS = 60.0, 1.0
_STEP = re.compile(r"slurmstepd: \[(\d+)\.")


def configure_imex(slurm: SlurmCommands, host_list: str, job: str) -> str:
    """Give IMEX the addresses of the job's nodes, and restart it.

    Returns:
        Why it failed; empty if it did not. A domain that is not ready within a minute is only reported: it may be
        another node's fault, and every node of the job would be drained.
    """
    others = other_jobs(job)
    if others:
        # A restart would end their memory exports. They are there only if this job is not exclusive.
        _tell("skipped", f"job {', '.join(others)} runs here; submit with --exclusive", job)
        return ""
    addresses = [is_set(node, "NodeAddr") for node in slurm.nodes(host_list)] if host_list else []
    if not addresses or not all(addresses):
        return f"scontrol shows no addresses of the job's nodes {host_list}"
    try:
        paths.write_atomically(paths.below(_NODES), "".join(f"{address}\n" for address in addresses))
    except OSError as fault:
        return f"{_NODES}: {fault.strerror}: is IMEX installed?"
    restarted = run("systemctl", "restart", _UNIT, timeout_seconds=_RESTART_SECONDS)
    if not restarted.ok:
        return f"systemctl restart {_UNIT}: {restarted.words}"
    said = _wait_until_ready()
    if said:
        _tell("waiting", f"IMEX is not ready after {_READY_SECONDS:g} s: {said}", job)
    return ""


def other_jobs(job: str) -> list[str]:
    """Numbers of other jobs with a step on this node, by the names of Slurm's own processes."""
    found = set()
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            step = _STEP.match(paths.read_text(entry / "cmdline"))
            if step and step[1] != job:
                found.add(step[1])
    return sorted(found, key=int)


def _wait_until_ready() -> str:
    """Empty once the domain is ready, or if nothing can be asked; otherwise the last answer."""
    until = time.monotonic() + _READY_SECONDS
    while True:
        asked = run("nvidia-imex-ctl", "-q", timeout_seconds=_RESTART_SECONDS)
        if asked.status == NOT_FOUND or asked.output.strip() == "READY":
            return ""
        if time.monotonic() >= until:
            return asked.words or "no answer"
        time.sleep(_PAUSE_SECONDS)


def _tell(state: str, reason: str, job: str) -> None:
    Events().write("imex", state, reason, job=job)
