"""Work beside a loop, which must not wait for what may hang."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_Answer = TypeVar("_Answer")


class Background(Generic[_Answer]):
    """One piece of work at a time, in a thread of its own.

    A thread that hangs in the kernel holds nobody: it is a daemon, and no second one is started beside it.
    """

    def __init__(self) -> None:
        self._answer: queue.Queue[_Answer] | None = None
        self._since = 0.0

    @property
    def busy(self) -> bool:
        """Whether the work is not done, or its answer was not taken."""
        return self._answer is not None

    def seconds(self, now: float) -> float:
        """How long it has been at it; 0 without work."""
        return now - self._since if self._answer is not None else 0.0

    def start(self, work: Callable[[], _Answer], now: float) -> None:
        """Begin.

        Args:
            work: What to do; it raises nothing.
            now: The time.

        Raises:
            RuntimeError: If the system has no thread for it.
        """
        answer: queue.Queue[_Answer] = queue.Queue(1)
        threading.Thread(target=lambda: answer.put(work()), daemon=True).start()
        self._answer, self._since = answer, now

    def take(self, seconds: float) -> _Answer | None:
        """The answer, if it is there within that time."""
        if self._answer is None:
            return None
        try:
            answer = self._answer.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        self._answer = None
        return answer
