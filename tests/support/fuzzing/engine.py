"""Runs programs over changed inputs, and finds what they must not do: fail, hang, read elsewhere, steer a terminal."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unicodedata import category

_SLOW_SECONDS, _HANG_SECONDS = 2.0, 60
# What every Python program reads: its own files, time zones, and the files of the kernel about the process.
_CHECKOUT = Path(__file__).resolve().parents[3]
_OWN = tuple(
    os.path.realpath(one)
    for one in (_CHECKOUT, sys.prefix, sys.base_prefix, "/usr/share", "/usr/lib", "/dev/null", "/proc/self/fd")
)

# Control characters, those of format (such as of direction), separators of lines, and halves of characters.
_STEERING = ("Cc", "Cf", "Zl", "Zp", "Cs")

#: A case: it gets an empty folder and a source of chance, and runs a program over what it writes there.
Target = Callable[[Path, Random], object]


class Hang(BaseException):
    """A case that waits for ever; no `except Exception` takes it for a fault of the input."""


@dataclass(frozen=True)
class Fault:
    """What a case did that it must not do."""

    target: str
    seed: int
    words: str

    def __str__(self) -> str:
        return f"{self.target} --seed {self.seed}: {self.words}"


class _Reads:
    """The paths that are opened. An audit hook stays for the rest of the process, so that there is one."""

    def __init__(self) -> None:
        self.folder = ""
        self.outside: list[str] = []
        self._is_added = False

    @contextmanager
    def only_below(self, folder: Path) -> Iterator[None]:
        if not self._is_added:
            sys.addaudithook(self._hear)
            self._is_added = True
        self.outside, self.folder = [], os.path.realpath(folder)
        try:
            yield
        finally:
            self.folder = ""

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self.folder or isinstance(arguments[0], int) or arguments[0] is None:
            return
        folder, self.folder = self.folder, ""  # realpath may open, too
        try:
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if not path.startswith((folder, *_OWN)):
                self.outside.append(path)
        except ValueError:  # a null character: nothing is opened
            pass
        finally:
            self.folder = folder


_READS = _Reads()


def run_case(name: str, target: Target, seed: int, folder: Path) -> Fault | None:
    """Run one case. Give what it did wrong."""
    out = io.StringIO()
    before = time.process_time()
    try:
        with _READS.only_below(folder), _limited(), redirect_stdout(out), redirect_stderr(out):
            target(folder, Random(seed))
    except Hang:
        return Fault(name, seed, f"still not done after {_HANG_SECONDS} s")
    except BaseException:  # noqa: BLE001 - whatever it is, a user would see it
        return Fault(name, seed, traceback.format_exc())
    seconds = time.process_time() - before
    if seconds > _SLOW_SECONDS:
        return Fault(name, seed, f"took {seconds:.1f} s of the processor")
    if _READS.outside:
        return Fault(name, seed, f"opened {_READS.outside[0]}")
    steering = sorted({one for one in out.getvalue() if one not in "\n\t" and category(one) in _STEERING})
    if steering:
        return Fault(name, seed, f"printed {steering!r}: {out.getvalue()[:2_000]!r}")
    if "Traceback (most recent" in out.getvalue():
        return Fault(name, seed, out.getvalue()[-3_000:])
    return None


@contextmanager
def _limited() -> Iterator[None]:
    def stop(_signal: int, _frame: object) -> None:
        raise Hang

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_HANG_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
