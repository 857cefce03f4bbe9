"""Where things are on a node. GPU_CLUSTER_ROOT puts all of it below another folder."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

# Everyone may read what is no secret; only root writes, whatever the umask.
_FOLDER_MODE, _FILE_MODE = 0o755, 0o644
#: Mode of files that only root may read.
PRIVATE = 0o600


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
    folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
    return folder


def run_folder() -> Path:
    """The folder, in memory, for state until the next reboot; created if it is missing."""
    folder = below("/run/gpu-cluster")
    folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
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


def read_regular(path: Path, longest_bytes: int) -> str:
    """The end of a regular file; empty if it cannot be read. A FIFO or a device does not block.

    Args:
        longest_bytes: Most bytes to read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as stream, suppress(OSError):
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            stream.seek(max(0, found.st_size - longest_bytes))
            return stream.read(longest_bytes).decode("utf-8", "replace")
    return ""


def write_atomically(path: Path, text: str, mode: int = _FILE_MODE) -> None:
    """Replace a file in one step, so that no reader sees half of it.

    Raises:
        OSError: If it cannot be written.
    """
    replace_atomically(path, lambda stream: stream.write(text.encode("utf-8", "replace")), mode)


def replace_atomically(path: Path, write: Callable[[IO[bytes]], object], mode: int) -> None:
    """Replace a file in one step by what a function writes. It has its mode from the first byte on.

    Args:
        write: Writes the content to a stream.

    Raises:
        OSError: If it cannot be written.
    """
    fresh = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    with suppress(FileNotFoundError):
        fresh.unlink()
    # O_EXCL follows no link that somebody else put there.
    descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
    try:
        with os.fdopen(descriptor, "w+b") as stream:
            os.fchmod(descriptor, mode)
            write(stream)
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
