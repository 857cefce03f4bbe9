"""One thread of this process that uses NVML, and what it knows of its own hangs.

- It initializes the library for a round of questions, and shuts it down after. An open library holds the GPUs: they
  could not be reset, nor the driver reloaded (`nvidia-smi --help`, `--gpu-reset`: no application may use the device).
- A call that does not return is left alone. Nothing stops it, and nothing else asks the driver meanwhile. A signal to
  a program that waits for the driver can freeze the GPU (NVIDIA/dcgm-exporter issue 84).
"""

from __future__ import annotations

import _ctypes
import ctypes
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ..command import STUCK, TIMED_OUT, Outcome, is_uninterruptible
from .answers import NotAnsweredError, answer_of
from .binding import ERROR_LIB_RM_VERSION_MISMATCH, LIBRARY, Nvml, NvmlError

# The probes of one poll ask at the same moment.
_IDLE_SECONDS = 2.0


class _Question:
    def __init__(self, answer: Callable[[Nvml], str]) -> None:
        self.answer = answer
        self.outcome: queue.Queue[Outcome | None] = queue.Queue(1)
        self.is_given_up = False


class Session:
    """Asks NVML, one question after the other."""

    def __init__(self, load: Callable[[str], Any] = ctypes.CDLL, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        """Prepare; nothing is loaded before the first question.

        Args:
            load: Loads the library; raises OSError without it.
            idle_seconds: How long the library stays initialized after an answer.
        """
        self._load, self._idle_seconds = load, idle_seconds
        self._questions: queue.Queue[_Question] = queue.Queue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._late_since: float | None = None
        self._pending = 0
        self._library: Any = None
        self._is_open = False

    def load(self) -> None:
        """Load the library, if there is one. Loading holds all threads of this process, also if the disk hangs."""
        with suppress(OSError):
            self._library = self._load(LIBRARY)

    def ask(self, arguments: Sequence[str], timeout_seconds: float) -> Outcome | None:
        """Answer a command line of `nvidia-smi`.

        Args:
            timeout_seconds: How long to wait. A later answer is dropped.

        Returns:
            Its outcome, STUCK or TIMED_OUT while a call does not return; None if `nvidia-smi` must be asked.
        """
        answer = answer_of(arguments)
        if answer is None:
            return self._late() if self.is_late else None
        if self.is_late:
            return self._late()
        question = _Question(answer)
        self._put(question)
        try:
            return question.outcome.get(timeout=timeout_seconds)
        except queue.Empty:
            pass
        with self._lock:
            if not question.outcome.empty():  # just in time
                return question.outcome.get()
            question.is_given_up = True
            self._late_since = self._late_since or time.monotonic()
        return self._late()

    @property
    def is_late(self) -> bool:
        """Whether a call has not returned in its time."""
        return self._late_since is not None

    def wait(self, timeout_seconds: float = math.inf) -> bool:
        """Wait until no call runs and the library is shut down, by default however long that takes.

        Returns:
            Whether that is so.
        """
        end = time.monotonic() + timeout_seconds
        while self._pending or self._is_open:
            if time.monotonic() >= end:
                return False
            time.sleep(0.05)
        return True

    def _put(self, question: _Question) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="nvml", daemon=True)
                thread.start()
                self._thread = thread
            self._pending += 1
            self._questions.put(question)

    def _late(self) -> Outcome:
        seconds = time.monotonic() - (self._late_since or time.monotonic())
        thread = self._thread.native_id if self._thread else None
        if thread is not None and is_uninterruptible(thread):
            return Outcome(STUCK, "", f"NVML is stuck in the kernel, for {seconds:.0f} s after its deadline")
        return Outcome(TIMED_OUT, "", f"NVML has not answered, for {seconds:.0f} s after its deadline")

    def _work(self) -> None:
        while True:
            try:
                question = self._questions.get(timeout=self._idle_seconds if self._is_open else None)
            except queue.Empty:
                self._close()
                continue
            outcome = None if question.is_given_up else self._outcome(question)
            with self._lock:
                question.outcome.put(outcome)
                self._pending -= 1
                self._late_since = None

    def _outcome(self, question: _Question) -> Outcome | None:
        try:
            nvml = self._open()
            return Outcome(0, question.answer(nvml))
        except (NvmlError, NotAnsweredError, OSError):
            # nvidia-smi has the words for a driver that is missing, or of another release than the library.
            return None
        except Exception:  # noqa: BLE001 - an unexpected answer of the driver must not end the thread
            return None

    def _open(self) -> Nvml:
        """The initialized library.

        Raises:
            OSError: Without the library.
            NvmlError: Without a driver.
        """
        if self._library is None:
            self._library = self._load(LIBRARY)
        nvml = Nvml(self._library)
        if not self._is_open:
            try:
                nvml.call("nvmlInit_v2")
            except NvmlError as fault:
                if fault.code == ERROR_LIB_RM_VERSION_MISMATCH:
                    self._unload()
                raise
            self._is_open = True
        return nvml

    def _close(self) -> None:
        with suppress(NvmlError):
            Nvml(self._library).call("nvmlShutdown")
        self._is_open = False

    def _unload(self) -> None:
        """Forget a library of another release than the driver: the next question loads that of the new driver."""
        library, self._library = self._library, None
        with suppress(OSError, AttributeError):
            _ctypes.dlclose(library._handle)
