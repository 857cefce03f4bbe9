"""Measures programs from outside, as whole processes with all their children."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SAMPLE_INTERVAL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a program.

    Attributes:
        wall_s: From its start to its end.
        cpu_s: User and system time of the program and of the children that it waited for.
    """

    wall_s: float
    cpu_s: float


def run(command: Sequence[str], env: Mapping[str, str]) -> Run:
    """Run a program and wait for it; leave if it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(list(command), env=dict(env), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    _check(process, command)
    return Run(wall_s=wall_s, cpu_s=usage.ru_utime + usage.ru_stime)


def peak_memory_mib(command: Sequence[str], env: Mapping[str, str]) -> float:
    """Sum of the peak resident sizes of a program and of all its children, in MiB.

    The kernel keeps each process's own peak (`VmHWM`), so that sampling misses only what happens between the last
    sample and the end. Pages that two processes share count twice. Linux only.
    """
    process = subprocess.Popen(list(command), env=dict(env), stdout=subprocess.DEVNULL)
    peaks: dict[int, int] = {}
    while process.poll() is None:
        for pid in _family(process.pid):
            peaks[pid] = max(peaks.get(pid, 0), _peak_kib(pid))
        time.sleep(_SAMPLE_INTERVAL_S)
    _check(process, command)
    return sum(peaks.values()) / 1024


def _check(process: subprocess.Popen[bytes], command: Sequence[str]) -> None:
    if process.returncode:
        sys.exit(f"benchmarks: exit status {process.returncode} from: {' '.join(command)}")


def _family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        children = [child for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:  # it ended just now
        return []
    return [pid, *(one for child in children for one in _family(int(child)))]


def _peak_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
