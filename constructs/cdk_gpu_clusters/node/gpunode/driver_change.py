"""Whether a program that may change the driver is at work on this node.

While it is, the driver and its library may differ in their versions, or the driver is not loaded.
"""

from __future__ import annotations

import os
from pathlib import Path

from . import paths

# Names of processes in /proc/PID/comm, which has 15 characters at most (proc(5)): package managers of the images, what
# builds the driver's modules, NVIDIA's installer, and kmod's programs. The daemon of unattended-upgrades always runs.
_PROGRAMS = (
    *("apt", "apt-get", "dnf", "dnf5", "dpkg", "rpm", "tdnf", "yum", "zypper"),
    *("NVIDIA-Linux-aa", "NVIDIA-Linux-x8", "dkms", "insmod", "modprobe", "nvidia-installe", "rmmod"),
)
# Longer than any installation. A modprobe that hangs in a broken driver must not hold a repair for ever.
_LONGEST_SECONDS = 3600.0
# proc(5): `starttime` is field 22, in ticks; counted after the name.
_START_TIME = 22 - 3


def program_at_work() -> str:
    """The name of such a program that runs; empty if none does."""
    for file in paths.below("/proc").glob("[0-9]*/comm"):
        name = paths.read_text(file).strip()
        if name in _PROGRAMS and _age_seconds(file.parent) < _LONGEST_SECONDS:
            return name
    return ""


def _age_seconds(process: Path) -> float:
    """How long a process has run; 0 if that is unknown."""
    cells = paths.read_text(process / "stat").rpartition(")")[2].split()
    try:
        return paths.uptime_seconds() - int(cells[_START_TIME]) / os.sysconf("SC_CLK_TCK")
    except (IndexError, ValueError, OSError):
        return 0.0
