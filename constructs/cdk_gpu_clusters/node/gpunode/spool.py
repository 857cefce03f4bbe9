"""Records that wait to be sent to AWS: one JSON line each, in files of limited size.

A spool is a file below `/var/lib/gpu-cluster`, which survives a reboot. What that disk does not accept goes to a file
below `/run`, which is memory. A file that exceeds its limit loses its oldest half. Its first line then counts the lost
records.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from . import paths

#: Size limit of a spool's file; a node that cannot reach AWS must not fill its disk.
LIMIT_BYTES = 4 * 1024 * 1024
# Events name processes and jobs of users.
_PRIVATE_FOLDER = 0o700
# The lock is held only while such a file is written. A frozen holder must not block others.
_LOCK_SECONDS = 2.0


def keep(name: str, record: Mapping[str, Any], *, milliseconds: int | None = None) -> None:
    """Keep a record until it is sent to AWS. A node whose disks are full continues its work.

    Args:
        name: Spool, such as `events` or `metrics`.
        record: Anything that JSON can hold.
        milliseconds: When it happened, since 1970; now if left out.
    """
    now = int(time.time() * 1000)
    line = _line(now if milliseconds is None else milliseconds, record)
    if not any(_add(folder / f"{name}.jsonl", f"{line}\n") for folder in _folders()):
        sys.stderr.write(f"the spool {name} cannot be written\n")


def take(name: str) -> list[str]:
    """Take all lines out of a spool, the oldest first, until `give_back`.

    Meanwhile they are in files of their own, which the next `take` finds if this program dies.
    """
    lines: list[str] = []
    for folder in _folders():
        file, taken = folder / f"{name}.jsonl", folder / f"{name}.taken"
        try:
            with _locked(file):
                if not taken.exists() and file.exists():
                    file.replace(taken)
        except OSError as fault:
            sys.stderr.write(f"the spool {file} cannot be emptied: {fault}\n")
        lines += paths.read_text(taken).splitlines()
    return lines


def give_back(name: str, lines: Sequence[str]) -> None:
    """Put lines that were not sent back, before newer ones.

    Args:
        lines: The remaining lines of `take`. If they cannot be written now, the next `take` finds all of them.
    """
    text = "".join(f"{line}\n" for line in lines)
    if not text or any(_add(folder / f"{name}.jsonl", text, first=True) for folder in _folders()):
        for folder in _folders():
            with suppress(OSError):
                (folder / f"{name}.taken").unlink(missing_ok=True)


def lost(count: int, reason: str) -> dict[str, Any]:
    """The record that replaces lost records."""
    return {"stage": "spool", "state": "dropped", "records": count, "reason": reason}


def _folders() -> Iterator[Path]:
    """The folders on disk and in memory, without any that cannot be written: nothing could be removed from those."""
    for parent in (paths.state_folder, paths.run_folder):
        with suppress(OSError):
            folder = parent() / "spool"
            folder.mkdir(_PRIVATE_FOLDER, exist_ok=True)
            folder.chmod(_PRIVATE_FOLDER)
            if os.access(folder, os.W_OK):
                yield folder


def _line(milliseconds: int, record: Mapping[str, Any]) -> str:
    return json.dumps({"timestamp": milliseconds, "message": json.dumps(record)})


def _add(file: Path, text: str, *, first: bool = False) -> bool:
    """Add lines at the end of a file, or before its first line. Return whether that is possible."""
    try:
        with _locked(file):
            if first:
                paths.write_atomically(file, text + paths.read_text(file), paths.PRIVATE)
            else:
                with file.open("a", encoding="utf-8") as stream:
                    stream.write(text)
            _shorten(file)
    except OSError:
        return False
    return True


def _shorten(file: Path) -> None:
    if not file.exists() or file.stat().st_size <= LIMIT_BYTES:
        return
    lines = paths.read_text(file).splitlines(keepends=True)
    gone, rest = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    count = sum(_records_in(line) for line in gone)
    note = _line(int(time.time() * 1000), lost(count, "they were not sent before the spool was full"))
    paths.write_atomically(file, "".join([f"{note}\n", *rest]), paths.PRIVATE)


def _records_in(line: str) -> int:
    """How many records a line represents: one, or the number of lost ones in it."""
    try:
        record = json.loads(json.loads(line)["message"])
        return int(record["records"]) if record.get("state") == "dropped" else 1
    except (ValueError, KeyError, TypeError, AttributeError):
        return 1


def _locked(file: Path) -> AbstractContextManager[bool]:
    return locked(file.with_suffix(".lock"), _LOCK_SECONDS)


_PAUSE_SECONDS = 0.02


@contextmanager
def locked(file: Path, seconds: float) -> Iterator[bool]:
    """Hold a lock between programs of this node. The kernel releases it if a program dies.

    Args:
        seconds: How long to wait for its holder. A frozen holder must not block others.

    Yields:
        Whether it is held.

    Raises:
        OSError: If the file cannot be created.
    """
    with file.open("a", encoding="utf-8") as stream:
        end = time.monotonic() + seconds
        held = _try(stream)
        while not held and time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)
            held = _try(stream)
        yield held


def _try(stream: IO[str]) -> bool:
    import fcntl  # Unix only, and `gpu-clusters plan` loads this module on every system

    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
