"""The kernel's log, `/dev/kmsg` (Linux kernel, Documentation/ABI/testing/dev-kmsg).

Not the journal: journald takes `NVRM:` for the name of a program and strips it from the message.
"""

from __future__ import annotations

import errno
import os
import select
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .. import paths

# A record of the kernel has at most 8 KiB; a reader with less room for it gets EINVAL for ever.
_READ_BYTES = 64 * 1024
# A kernel that talks without end must not hold the reader.
_MOST_RECORDS = 5_000


class Record(NamedTuple):
    """One message of the kernel.

    Attributes:
        sequence: Its number in this boot.
        text: The message, without its continuation lines.
    """

    sequence: int
    text: str


class KernelLog:
    """Reads what the kernel says, each message once.

    Attributes:
        sequence: Number of the last message read; -1 before the first.
        overwritten: How many times messages were gone before they could be read.
    """

    def __init__(self, *, after: int = -1, from_end: bool = False, path: Path | None = None) -> None:
        """Begin to read.

        Args:
            after: Last message that was read by an earlier process of this boot. -1: from the boot's first message
                that is still there, since a fault of this boot counts even when nobody watched yet.
            from_end: Skip what is there already, in a container that shares its host's log.
            path: Where the log is.
        """
        self.sequence: int = after
        self.overwritten: int = 0
        self._path = path or paths.below("/dev/kmsg")
        self._from_end = from_end and after < 0
        self._file = -1

    def read(self) -> list[Record]:
        """The messages since the last call.

        Raises:
            OSError: If the log cannot be read. The next call opens it again.
        """
        try:
            if self._file < 0:
                self._open()
            return self._read()
        except OSError:
            self.close()
            raise

    def wait(self, seconds: float) -> bool:
        """Wait for a message, or until the time is up; says whether there may be one."""
        end = time.monotonic() + max(0.0, seconds)
        if self._file >= 0:
            poller = select.poll()
            poller.register(self._file, select.POLLIN)
            if any(event & select.POLLIN for _, event in poller.poll(max(0.0, seconds) * 1000)):
                return True
        time.sleep(max(0.0, end - time.monotonic()))
        return False

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
        self._file = -1

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if self._from_end:
            with suppress(OSError):
                os.lseek(self._file, 0, os.SEEK_END)
            self._from_end = False

    def _read(self) -> list[Record]:
        records: list[Record] = []
        while len(records) < _MOST_RECORDS:
            try:
                chunk = os.read(self._file, _READ_BYTES)
            except BlockingIOError:
                break
            except OSError as fault:
                # The ring went round: the next read gives the oldest message that is left.
                if fault.errno != errno.EPIPE:
                    raise
                self.overwritten += 1
                continue
            if not chunk:
                break
            records += self._new(chunk)
        return records

    def _new(self, chunk: bytes) -> list[Record]:
        found = (_record(line) for line in chunk.decode("utf-8", "replace").split("\n"))
        new = [record for record in found if record is not None and record.sequence > self.sequence]
        if new:
            self.sequence = max(record.sequence for record in new)
        return new


def _record(line: str) -> Record | None:
    """A record such as `4,1234,5678901,-;NVRM: Xid ...`; None for a continuation line, which begins with a blank."""
    head, mark, text = line.partition(";")
    fields = head.split(",")
    if line.startswith(" ") or not mark or len(fields) < 3 or not fields[1].isdigit():
        return None
    return Record(int(fields[1]), text)
