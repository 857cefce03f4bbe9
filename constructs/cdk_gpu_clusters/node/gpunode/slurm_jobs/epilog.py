"""`gpunode epilog`: remove what a job left on this node, so that the next one finds it as new.

slurmd runs it as root after each job. A failure drains the node with the reason "Epilog error" (Slurm documentation,
"Prolog and Epilog Guide"): what cannot be removed needs a person, or a reboot.

- Processes that left the job's process group or its cgroup still have its number in their environment.
- A GPU that was the job's alone must have none of its user's processes any more; they hold its memory.
- The job's folder on the local disks.
- What its user left in /dev/shm, such as NCCL's segments, once no process of this user runs on the node.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import nvidia_smi
from ..events import Events
from ..node import Settings, read_settings
from .prolog import instance_id, job_folder, remove_folder

# A process that holds a GPU takes seconds to give its memory back.
_END_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
_DRIVER_SECONDS = 20
# System users own segments of daemons: useradd(8), UID_MIN.
_FIRST_USER = 1000
_PROC, _SHARED_MEMORY = Path("/proc"), Path("/dev/shm")  # noqa: S108 - what jobs left there is removed


def add_epilog(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of `gpunode`."""
    command = commands.add_parser("epilog", help="slurmd: remove what a job left on this node")
    command.set_defaults(run=epilog)


def epilog(_: argparse.Namespace) -> int:
    """Clean up after the job of the environment; returns the exit status."""
    settings, job = read_settings(), os.environ.get("SLURM_JOB_ID", "")
    user = int(os.environ.get("SLURM_JOB_UID") or -1)
    faults = [
        *end_processes(lambda: processes_of_job(job)),
        *end_processes(lambda: processes_on_gpus(settings, os.environ.get("SLURM_JOB_GPUS", ""), user)),
    ]
    folder = job_folder(settings, job)
    if folder:
        remove_folder(folder)
    remove_shared_memory(user)
    if faults:
        Events(instance_id()).write("epilog", "failed", "; ".join(faults), job=job)
    return 1 if faults else 0


def end_processes(find: Callable[[], dict[int, str]]) -> list[str]:
    """Kill processes until none is found; returns what still runs after ten seconds.

    Args:
        find: Returns the processes, pid to words.
    """
    until = time.monotonic() + _END_SECONDS
    while True:
        found = find()
        if not found or time.monotonic() >= until:
            return list(found.values())
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)


def processes_of_job(job: str) -> dict[int, str]:
    """Processes that have the job's number in their environment, without this one and those that started it."""
    if not job:
        return {}
    mark, own = f"SLURM_JOB_ID={job}".encode(), set(_ancestors(os.getpid()))
    found = {}
    for pid in _pids():
        try:
            marked = mark in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if marked and pid not in own:
            found[pid] = f"process {pid} of job {job} cannot be ended"
    return found


def processes_on_gpus(settings: Settings, gpus: str, user: int) -> dict[int, str]:
    """Processes of the job's user on the GPUs that were the job's alone.

    Slices of one GPU have several jobs, so that a split GPU proves nothing about one of them. A driver that does
    not answer is the watchdog's to find.
    """
    indices = {word for word in gpus.split(",") if word.isdecimal()}
    if not indices or settings.text("accelerator") != "gpu" or settings.number("mig_count"):
        return {}
    rows = nvidia_smi.query(("index", "uuid"), timeout_seconds=_DRIVER_SECONDS).rows
    uuids = {row["uuid"]: row["index"] for row in rows if row["index"] in indices}
    apps = nvidia_smi.call(
        "--query-compute-apps=gpu_uuid,pid,used_gpu_memory",
        "--format=csv,noheader,nounits",
        timeout_seconds=_DRIVER_SECONDS,
    )
    found = {}
    for line in apps.output.splitlines():
        uuid, pid, memory = [*line.split(","), "", ""][:3]
        if uuid.strip() in uuids and pid.strip().isdecimal() and _owner(int(pid)) == user:
            found[int(pid)] = f"process {pid.strip()} holds {memory.strip()} MiB of GPU {uuids[uuid.strip()]}"
    return found


def remove_shared_memory(user: int) -> None:
    """Remove what a user left in /dev/shm, unless a process of this user still runs."""
    if user < _FIRST_USER or any(_owner(pid) == user for pid in _pids()):
        return
    with suppress(OSError), os.scandir(_SHARED_MEMORY) as entries:
        for entry in list(entries):
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_uid == user:
                    _remove(entry)


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        Path(entry.path).unlink()


def _pids() -> Sequence[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _owner(pid: int) -> int:
    """The user of a process; -1 for one that is gone, or has ended and waits to be reaped: it holds nothing."""
    try:
        return -1 if _state_and_parent(pid)[0] in "ZX" else (_PROC / str(pid)).stat().st_uid
    except (OSError, ValueError, IndexError):
        return -1


def _ancestors(pid: int) -> Iterable[int]:
    while pid > 0:
        yield pid
        try:
            pid = _state_and_parent(pid)[1]
        except (OSError, ValueError, IndexError):
            return


def _state_and_parent(pid: int) -> tuple[str, int]:
    # proc(5): they are the fields after the name, which may hold blanks and brackets.
    state, parent = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[:2]
    return state, int(parent)
