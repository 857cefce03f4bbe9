"""Other programs with a deadline, which holds even for a child that cannot be killed, and work in the background."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

# Most programs end at once. The others are polled less often.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.001, 0.05
# Time between SIGTERM and SIGKILL.
_TERMINATE_SECONDS = 3
_KILL_SECONDS = 0.5

# Children that could not be killed, by their command lines. Starting the same again would only add to them.
_stuck: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}

#: Statuses of programs that did not exit by themselves, numbered like coreutils' `timeout` and shells. STUCK is ours.
NOT_FOUND, NOT_EXECUTABLE, TIMED_OUT, STUCK = 127, 126, 124, 125


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program.

    Attributes:
        status: Exit status; NOT_FOUND, NOT_EXECUTABLE, TIMED_OUT or STUCK if there was none.
        output: Standard output and error together, undecodable bytes replaced.
    """

    status: int
    output: str

    @property
    def ok(self) -> bool:
        """Whether it ended with status 0."""
        return self.status == 0

    @property
    def hung(self) -> bool:
        """Whether it did not end in time."""
        return self.status in (TIMED_OUT, STUCK)

    @property
    def words(self) -> str:
        """The output as one line of at most 400 characters, for a reason."""
        return " ".join(self.output.split())[:400]


def run(*arguments: str, timeout_seconds: float = 20, environment: Mapping[str, str] | None = None) -> Outcome:
    """Run a program to its end, or to the deadline.

    A child in uninterruptible sleep survives SIGKILL, and `subprocess.run(timeout=...)` would wait for it without end.
    Here it is polled and then left alone. While it exists, the same command line is not run again.

    Args:
        environment: Variables in addition to those of this process.
    """
    if _is_stuck(arguments):
        return Outcome(STUCK, f"{arguments[0]} is still stuck in the kernel")
    # A file, not a pipe: a grandchild that keeps a pipe open would block the reader. In memory: the disk may be full,
    # or read-only.
    with os.fdopen(os.memfd_create("output"), "w+b") as captured:
        try:
            child = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=captured,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        except FileNotFoundError:
            return Outcome(NOT_FOUND, f"not found: {arguments[0]}")
        except OSError as fault:
            return Outcome(NOT_EXECUTABLE, f"{arguments[0]}: {fault.strerror}")
        status = _wait(child, timeout_seconds)
        if status == STUCK:
            _stuck[arguments] = child
        captured.seek(0)
        output = captured.read().decode("utf-8", "replace")
    if status == TIMED_OUT:
        return Outcome(status, f"{arguments[0]} did not end within {timeout_seconds:g} s {output}")
    if status == STUCK:
        return Outcome(status, f"{arguments[0]} is stuck in the kernel and cannot be killed {output}")
    return Outcome(status, output)


def _is_stuck(arguments: tuple[str, ...]) -> bool:
    child = _stuck.get(arguments)
    if child is None:
        return False
    with suppress(ChildProcessError):
        if os.waitpid(child.pid, os.WNOHANG)[0] == 0:
            return True
    _stuck.pop(arguments, None)
    return False


def _wait(child: subprocess.Popen[bytes], timeout_seconds: float) -> int:
    if _ended(child, timeout_seconds):
        return int(child.returncode)
    for signal_number, seconds in ((signal.SIGTERM, _TERMINATE_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal_number)
        if _ended(child, seconds):
            return TIMED_OUT
    child.returncode = STUCK  # or its destructor would warn of it, and wait
    return STUCK


def _ended(child: subprocess.Popen[bytes], seconds: float) -> bool:
    end, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
    while child.poll() is None:
        if time.monotonic() >= end:
            return False
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
    return True


_Result = TypeVar("_Result")


class Background(Generic[_Result]):
    """One piece of work at a time, in a thread of its own, beside a loop that must not wait for it.

    A thread that hangs in the kernel blocks nothing: it is a daemon, and no second one is started beside it.
    """

    def __init__(self) -> None:
        self._answer: queue.Queue[_Result] | None = None
        self._since = 0.0

    @property
    def busy(self) -> bool:
        """Whether the work is not done, or its result was not taken."""
        return self._answer is not None

    def seconds(self, now: float) -> float:
        """How long the work has taken so far; 0 without work."""
        return now - self._since if self._answer is not None else 0.0

    def start(self, work: Callable[[], _Result], now: float) -> None:
        """Start.

        Raises:
            RuntimeError: If the system has no thread for it.
        """
        answer: queue.Queue[_Result] = queue.Queue(1)
        threading.Thread(target=lambda: answer.put(work()), daemon=True).start()
        self._answer, self._since = answer, now

    def take(self, seconds: float) -> _Result | None:
        """The result, if it is available within that time, otherwise None."""
        if self._answer is None:
            return None
        try:
            answer = self._answer.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        self._answer = None
        return answer
