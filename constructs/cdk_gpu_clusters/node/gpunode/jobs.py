"""The jobs that `gpunode run` started on this node, so that the end of the node can stop them.

`/run/gpu-cluster/jobs` holds one file for each: its name is the pid of the job's main process, and its text the start
time of that process, as `/proc/PID/stat` gives it, so that a reused pid is not
taken for the job. Everyone may write there, as to `/tmp`: a file counts only for a process of the same user, or if it
is root's. Only the files of running processes are opened, and nothing but small regular files is read: whatever else
users put there costs the node nothing.
"""

from __future__ import annotations

import os
import signal
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from . import paths
from .command import run

# proc(5): `starttime` is field 22; the name, field 2, may hold blanks and brackets.
_START_TIME = 22 - 3
_PAUSE_SECONDS = 0.1
_STICKY_FOR_ALL = 0o1777
# A start time has at most 20 digits.
_LONGEST_BYTES = 64
# A file system of its own, so that nobody fills /run: each file takes a page of 4 KiB, and 4,000 jobs are plenty.
_OPTIONS = "mode=1777,size=16m,nr_inodes=5k,nosuid,nodev,noexec"
_MOST_REMOVED = 1_000


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
    paths.run_folder()
    folder = _folder()
    folder.mkdir(exist_ok=True)
    if paths.root() == Path("/") and not os.path.ismount(folder):
        # If it fails, the folder is a part of /run.
        run("mount", "-t", "tmpfs", "-o", _OPTIONS, "gpu-jobs", str(folder))
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
    file = _folder() / str(pid)
    try:
        with suppress(FileNotFoundError):
            file.unlink()
        # Never through a link of another user.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(_start_time(pid))
    except OSError:
        return False
    return True


def running() -> list[Job]:
    """The jobs that run. It takes as long as there are processes, however many files there are."""
    folder = _folder()
    if not folder.is_dir():
        return []
    pids = sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    jobs = (Job(pid, folder / str(pid)) for pid in pids)
    return [job for job in jobs if _is_running(job)]


def remove_ended() -> None:
    """Remove files of ended jobs, at most a thousand, as far as this user may."""
    with suppress(OSError), os.scandir(_folder()) as entries:
        for entry in list(islice(entries, _MOST_REMOVED)):
            if not (entry.name.isdigit() and Path(f"/proc/{entry.name}").exists()):
                _remove(entry)


def _remove(entry: os.DirEntry[str]) -> None:
    with suppress(OSError):
        (Path(entry).rmdir if entry.is_dir(follow_symlinks=False) else Path(entry).unlink)()


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
        left = [job for job in jobs if _is_running(job)]
        if not left or time.monotonic() >= until:
            return left
        time.sleep(_PAUSE_SECONDS)


def _folder() -> Path:
    return paths.below("/run/gpu-cluster/jobs")


def _is_running(job: Job) -> bool:
    """Whether the file registers this process, and not an earlier one with its pid or another user's."""
    try:
        # A FIFO without a writer would block, and a link could lead anywhere.
        descriptor = os.open(job.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        file = os.fstat(descriptor)
        if not stat.S_ISREG(file.st_mode) or file.st_size > _LONGEST_BYTES or file.st_nlink != 1:
            return False
        started = _start_time(job.pid)
        # Not /proc below the node's root, as elsewhere: the signal goes to processes of this system.
        return (
            bool(started)
            and os.read(descriptor, _LONGEST_BYTES).strip() == started.encode()
            and file.st_uid in (0, Path(f"/proc/{job.pid}").stat().st_uid)
        )
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _start_time(pid: int) -> str:
    """When a process started, in ticks; empty for one that is gone or waits to be reaped."""
    fields = paths.read_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields[_START_TIME] if len(fields) > _START_TIME and fields[0] not in ("Z", "X") else ""
