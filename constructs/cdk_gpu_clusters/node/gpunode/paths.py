"""Where things are on a node. GPU_CLUSTER_ROOT puts all of it below another folder."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path


def root() -> Path:
    """The root of the node's files."""
    return Path(os.environ.get("GPU_CLUSTER_ROOT") or "/")


def below(path: str) -> Path:
    """An absolute path of the node."""
    return root() / path.lstrip("/")


def settings_file() -> Path:
    """The settings that the user data wrote, one NAME=value line each."""
    return below("/etc/gpu-cluster/node.env")


def state_folder() -> Path:
    """The folder for state that survives reboots; created if it is missing."""
    folder = below("/var/lib/gpu-cluster")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run_folder() -> Path:
    """The folder, in memory, for state until the next reboot; created if it is missing."""
    folder = below("/run/gpu-cluster")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def boot_id() -> str:
    """Id of this boot of the kernel; empty if there is none."""
    return read_text(below("/proc/sys/kernel/random/boot_id")).strip()


def uptime_seconds() -> float:
    """Seconds since the kernel started, so that a slow start counts against a boot's deadline."""
    uptime, moment = _start()
    return uptime + time.monotonic() - moment


@cache
def _start() -> tuple[float, float]:
    words = read_text(below("/proc/uptime")).split()
    return float(words[0]) if words else 0.0, time.monotonic()


def read_text(path: Path, default: str = "") -> str:
    """The text of a file, or the default if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return default


def read_number(path: Path) -> int | None:
    """The number that is the text of a file; None if it cannot be read, or is no number."""
    try:
        return int(read_text(path))
    except ValueError:
        return None


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step, so that no reader sees half of it."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
