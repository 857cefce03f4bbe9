"""Locks between programs of this node, which a program that dies lets go of."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_PAUSE_SECONDS = 0.02


@contextmanager
def locked(file: Path, seconds: float) -> Iterator[bool]:
    """Hold a lock.

    Args:
        file: What is locked; made if it is not there.
        seconds: How long to wait for whoever holds it; a frozen holder must not hold others up.

    Yields:
        Whether it is held.

    Raises:
        OSError: If the file cannot be made.
    """
    with file.open("a", encoding="utf-8") as stream:
        end = time.monotonic() + seconds
        held = _try(stream)
        while not held and time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)
            held = _try(stream)
        yield held


def _try(stream: IO[str]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
