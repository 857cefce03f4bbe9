"""Writes beside the watchdog's loop: a disk or a journal that hangs must not hold it."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from ..events import Events

# More wait only where nothing is taken any more.
_MOST_WAITING = 1_000


class Scribe:
    """Takes steps that write, and does them in their order in a thread of its own."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._steps: queue.Queue[Callable[[], object]] = queue.Queue(_MOST_WAITING)
        threading.Thread(target=self._work, daemon=True).start()

    def write(self, *words: str, **more: Any) -> None:
        """Write an event, as `Events.write` does."""
        self.do(partial(self._write, *words, **more))

    def complain(self, words: str) -> None:
        """Write to the journal alone, about the watchdog itself."""
        self.do(partial(sys.stderr.write, f"{words}\n"))

    def do(self, step: Callable[[], object]) -> None:
        """Do something after all that was asked before; what finds no room is dropped.

        Args:
            step: What to do; may raise.
        """
        try:
            self._steps.put_nowait(step)
        except queue.Full:
            return

    def settle(self, seconds: float) -> bool:
        """Wait until all is written; says whether it is.

        Args:
            seconds: How long to wait at most.
        """
        done = threading.Event()
        self.do(done.set)
        return done.wait(seconds)

    def _write(self, *words: str, **more: Any) -> None:
        self._events.write(*words, **more)
        # This process runs for months; what it wrote stands in the journal and in the spool.
        self._events.written.clear()

    def _work(self) -> None:
        while True:
            step = self._steps.get()
            try:
                step()
            except Exception as fault:  # noqa: BLE001 - the next step may do better
                sys.stderr.write(f"not written: {type(fault).__name__}: {fault}\n")
