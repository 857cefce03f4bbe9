"""The jobs that `gpunode run` started on this node, so that the end of the node can stop them.

`/run/gpu-cluster/jobs` holds one file for each: its name is the pid of the job's main process, and its text the start
time of that process, as `/proc/PID/stat` gives it, so that a reused pid is not
taken for the job. Everyone may write there, as to `/tmp`: a file counts only for a process of the same user, or if it
is root's.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import paths

# proc(5): `starttime` is field 22; the name, field 2, may hold blanks and brackets.
_START_TIME = 22 - 3
_PAUSE_SECONDS = 0.1
_STICKY_FOR_ALL = 0o1777


@dataclass(frozen=True)
class Job:
    """A job that runs.

    Attributes:
        pid: Its main process, which forwards signals to the others.
        file: The file that registers it.
    """

    pid: int
    file: Path


def make_folder() -> Path:
    """Create the folder, where every user may register jobs. Root does it when the node starts.

    Raises:
        OSError: If it cannot be created.
    """
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(_STICKY_FOR_ALL)
    return folder


def register(pid: int | None = None) -> bool:
    """Register a job, which then gets SIGTERM before the node ends. Its file is removed when the job is gone.

    A program that becomes the job by `exec` keeps its pid, and its file.

    Args:
        pid: Its main process; this one by default.

    Returns:
        Whether it is registered; a job runs even if it is not.
    """
    pid = os.getpid() if pid is None else pid
    try:
        (_folder() / str(pid)).write_text(_start_time(pid), encoding="utf-8")
    except OSError:
        return False
    return True


def running() -> list[Job]:
    """The jobs that run; files of ended jobs are removed."""
    try:
        files = sorted(_folder().iterdir())
    except OSError:
        return []
    return [job for file in files for job in _job(file)]


def end(jobs: list[Job], seconds: float) -> list[Job]:
    """Send SIGTERM to jobs, and wait for them.

    Returns:
        Those that still run.
    """
    for job in jobs:
        with suppress(OSError):
            os.kill(job.pid, signal.SIGTERM)
    until = time.monotonic() + seconds
    while True:
        left = [job for job in jobs if job in running()]
        if not left or time.monotonic() >= until:
            return left
        time.sleep(_PAUSE_SECONDS)


def _folder() -> Path:
    return paths.below("/run/gpu-cluster/jobs")


def _job(file: Path) -> list[Job]:
    if not file.name.isdigit():
        return []
    pid = int(file.name)
    try:
        started = _start_time(pid)
        if not started or file.is_symlink() or file.read_text(encoding="utf-8").strip() != started:
            file.unlink()
            return []
        owner = file.stat().st_uid
        # Not /proc below the node's root, as elsewhere: the signal goes to processes of this system.
        return [Job(pid, file)] if owner in (0, Path(f"/proc/{pid}").stat().st_uid) else []
    except (OSError, ValueError):
        return []


def _start_time(pid: int) -> str:
    """When a process started, in ticks; empty for one that is gone or waits to be reaped."""
    fields = paths.read_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields[_START_TIME] if len(fields) > _START_TIME and fields[0] not in ("Z", "X") else ""
