"""Other programs with a deadline, which holds even for a child that cannot be killed, and work in the background."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from .quoting import one_line

# Most programs end at once. The others are polled less often.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.001, 0.05
# Time between SIGTERM and SIGKILL.
_TERMINATE_SECONDS = 3
_KILL_SECONDS = 0.5
# Far more than any program prints that is read here: `nvidia-smi -q -x` of eight GPUs has less than 1 MiB.
_LONGEST_BYTES = 16 * 1024 * 1024

# Children that could not be killed, by their command lines, and slow clients of a driver, by their names. Starting the
# same again would only add to them.
_stuck: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}

# Clients of drivers. A slow one gets no signal, since that can freeze a GPU (NVIDIA/dcgm-exporter issue 84).
_DRIVER_CLIENTS = ("nvidia-smi", "dcgmi", "neuron-ls", "fi_info")

#: Statuses of programs that did not exit by themselves, numbered like coreutils' `timeout` and shells. STUCK is ours.
NOT_FOUND, NOT_EXECUTABLE, TIMED_OUT, STUCK = 127, 126, 124, 125


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program.

    Attributes:
        status: Exit status; NOT_FOUND, NOT_EXECUTABLE, TIMED_OUT or STUCK if there was none.
        output: Standard output, undecodable bytes replaced.
        errors: Standard error, after what this module adds about a program that did not end by itself. Apart from the
            output, since a warning there must not spoil JSON or CSV.
    """

    status: int
    output: str
    errors: str = ""

    @property
    def ok(self) -> bool:
        """Whether it ended with status 0."""
        return self.status == 0

    @property
    def hung(self) -> bool:
        """Whether it did not end in time."""
        return self.status in (TIMED_OUT, STUCK)

    @property
    def text(self) -> str:
        """Errors and output, for people."""
        return self.errors + self.output

    @property
    def words(self) -> str:
        """The text as one line of at most 400 printable characters, for a reason."""
        return one_line(f"{self.errors[:4000]} {self.output[:4000]}", 400)


def run(
    *arguments: str, timeout_seconds: float = 20, environment: Mapping[str, str] | None = None, client: str = ""
) -> Outcome:
    """Run a program to its end, or to the deadline, in the locale C: its output is never translated.

    A child in uninterruptible sleep survives SIGKILL, and `subprocess.run(timeout=...)` would wait for it without end.
    Here it is polled and then left alone. While it exists, the same command line is not run again.

    Args:
        environment: Variables in addition to those of this process.
        client: A name for a client of a driver; nvidia-smi and other known ones need none. A slow client gets no
            signal: it is left alone, and no other of that name is started while it runs.
    """
    client = client or next((name for name in _DRIVER_CLIENTS if Path(arguments[0]).name == name), "")
    key = (client,) if client else arguments
    left = _left_child(key)
    if left is not None:
        status = STUCK if not client or is_uninterruptible(left) else TIMED_OUT
        return Outcome(status, "", f"{arguments[0]} is still {'stuck in the kernel' if status == STUCK else 'running'}")
    with closing(_Captured()) as output, closing(_Captured()) as errors:
        try:
            child = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output.file,
                stderr=errors.file,
                env={**os.environ, "LC_ALL": "C", **(environment or {})},
                start_new_session=True,
            )
        except FileNotFoundError:
            return Outcome(NOT_FOUND, "", f"not found: {arguments[0]}")
        except (OSError, ValueError) as fault:
            return Outcome(NOT_EXECUTABLE, "", f"{arguments[0]}: {getattr(fault, 'strerror', None) or fault}")
        status = (_leave if client else _end)(child, timeout_seconds, (output, errors))
        if status == STUCK or (client and child.returncode == STUCK):
            _stuck[key] = child
        return Outcome(status, output.read(), _note(status, arguments[0], timeout_seconds) + errors.read())


def _note(status: int, program: str, timeout_seconds: float) -> str:
    if status == TIMED_OUT:
        return f"{program} did not end within {timeout_seconds:g} s\n"
    return f"{program} is stuck in the kernel and cannot be killed\n" if status == STUCK else ""


class _Captured:
    """What a program writes, up to a limit. The rest is dropped, so that an endless output cannot fill the memory.

    A file, not a pipe: a grandchild that keeps a pipe open would block the reader. In memory: the disk may be full, or
    read-only.
    """

    def __init__(self) -> None:
        self.file = os.memfd_create("output")

    def close(self) -> None:
        os.close(self.file)

    def limit(self) -> None:
        """Free what exceeds the limit. The program goes on at its own offset, and leaves a hole."""
        if os.fstat(self.file).st_size > _LONGEST_BYTES:
            os.ftruncate(self.file, _LONGEST_BYTES)

    def read(self) -> str:
        return os.pread(self.file, _LONGEST_BYTES, 0).decode("utf-8", "replace")


def _left_child(key: tuple[str, ...]) -> int | None:
    """The process that was left alone and still exists."""
    child = _stuck.get(key)
    if child is None:
        return None
    with suppress(ChildProcessError):
        if os.waitpid(child.pid, os.WNOHANG)[0] == 0:
            return child.pid
    _stuck.pop(key, None)
    return None


def is_uninterruptible(task: int) -> bool:
    """Whether a process or thread waits in the kernel, where no signal reaches it (proc(5), state D)."""
    try:
        with open(f"/proc/{task}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - of this system
            return file.read().rpartition(")")[2].split()[0] == "D"
    except (OSError, IndexError):
        return False


def _leave(child: subprocess.Popen[bytes], timeout_seconds: float, captured: Sequence[_Captured]) -> int:
    """Wait for a child, or leave it alone at the deadline."""
    if _ended(child, timeout_seconds, captured):
        return int(child.returncode)
    child.returncode = STUCK  # or its destructor would warn of it, and wait
    return STUCK if is_uninterruptible(child.pid) else TIMED_OUT


def _end(child: subprocess.Popen[bytes], timeout_seconds: float, captured: Sequence[_Captured]) -> int:
    """Wait for a child, or end it at the deadline."""
    if _ended(child, timeout_seconds, captured):
        return int(child.returncode)
    for signal_number, seconds in ((signal.SIGTERM, _TERMINATE_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal_number)
        if _ended(child, seconds, captured):
            return TIMED_OUT
    child.returncode = STUCK  # or its destructor would warn of it, and wait
    return STUCK


def _ended(child: subprocess.Popen[bytes], seconds: float, captured: Sequence[_Captured]) -> bool:
    end, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
    while child.poll() is None:
        if time.monotonic() >= end:
            return False
        for one in captured:
            one.limit()
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
