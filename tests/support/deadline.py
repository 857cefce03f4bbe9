"""A time after which a test fails, where what it tests would otherwise wait for ever."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ends_within(seconds: float) -> Iterator[None]:
    """Fail if the block, which may wait in a system call, has not ended by then. Code under test may catch OSError."""

    def late(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
