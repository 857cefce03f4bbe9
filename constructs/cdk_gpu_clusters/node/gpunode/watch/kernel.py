"""The kernel's log, `/dev/kmsg`, and what its messages mean for the node.

Not the journal: journald takes `NVRM:` for the name of a program and strips it from the message (Linux kernel,
Documentation/ABI/testing/dev-kmsg).
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from re import Pattern
from typing import Any, NamedTuple

from .. import paths
from ..checks.check import Severity
from .probes import Symptom

# A record of the kernel has at most 8 KiB. A reader with a smaller buffer always gets EINVAL.
_READ_BYTES = 64 * 1024
# An endless stream of messages must not hold the reader.
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
    """Reads the messages of the kernel, each once.

    Attributes:
        sequence: Number of the last message read; -1 before the first.
        overwritten: How many times messages were overwritten before they could be read.
    """

    def __init__(self, *, after: int = -1, from_end: bool = False, path: Path | None = None) -> None:
        """Start reading.

        Args:
            after: Last message that an earlier process of this boot read. -1: start with the boot's first message that
                is still available, since a fault counts even before the watchdog runs.
            from_end: Skip existing messages, in a container that shares its host's log.
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
        """Wait for a message, or until the time is up. Return whether there may be one."""
        end = time.monotonic() + max(0.0, seconds)
        if self._file >= 0:
            poller = select.poll()
            poller.register(self._file, select.POLLIN)
            if any(event & select.POLLIN for _, event in poller.poll(max(0.0, seconds) * 1000)):
                return True
        time.sleep(max(0.0, end - time.monotonic()))
        return False

    def close(self) -> None:
        """Close the file."""
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
                # The ring buffer wrapped: the next read gives the oldest message that is left.
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


_LONGEST_REASON = 300

# NVIDIA, "XID errors": `NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: ...`. Old drivers omit PCI:, and on MIG
# devices the brackets hold more words.
_XID = re.compile(r"^NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\): (\d+),?\s*(.*)")
# NVIDIA Fabric Manager user guide, appendix D: `nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 30 ...`.
_SXID = re.compile(r"SXid \(PCI:([0-9A-Fa-f:.]+)\): (\d+), (Fatal|Non-fatal),?\s*(.*)")
#: Messages that are only watched: the beginning of the symptom's key, and its words.
_WATCHED: Mapping[Pattern[str], tuple[str, str]] = {
    # Lustre, ptlrpc/import.c: requests in flight at that server are lost.
    re.compile(r"This client was evicted by ([^;\s]+)"): (
        "evicted",
        "Lustre: evicted by {}; requests in flight there are lost",
    ),
    # The same: `fsx-OST0001-osc-ffff: Connection to fsx-OST0001 (at 10.0.0.9@tcp) was lost; in progress ...`.
    re.compile(r"Lustre: \S+: Connection to (\S+) \(at ([^)\s]+)\) was lost"): (
        "cut-off",
        "Lustre: connection to {} at {} lost; requests in flight there wait for it",
    ),
    # Linux kernel, kernel/hung_task.c.
    re.compile(r"INFO: task (\S+):\d+ blocked for more than (\d+) seconds"): (
        "hung",
        "{} is blocked in the kernel for more than {} s",
    ),
}


def symptom_of(record: Record, table: XidTable) -> Symptom | None:
    """The symptom that a message shows; None for most messages.

    One message is enough: the kernel reports an event once.
    """
    xid, sxid = _XID.search(record.text), _SXID.search(record.text)
    if xid:
        device, code, text = xid[1], int(xid[2]), xid[3]
        name = table.name(code)
        words = f"Xid {code}{f' ({name})' if name else ''} on {device}: {text}"
        return _event(f"xid-{code}-{device}", table.severity(code, xid[0]), words)
    if sxid:
        # Fatal ones require a restart of the guest or of its host (appendix D.5 and D.6), others nothing.
        severity = Severity.REBOOT if sxid[3] == "Fatal" else Severity.MONITOR
        return _event(f"sxid-{sxid[2]}-{sxid[1]}", severity, f"SXid {sxid[2]} ({sxid[3]}) on {sxid[1]}: {sxid[4]}")
    for pattern, (key, words) in _WATCHED.items():
        match = pattern.search(record.text)
        if match:
            return _event(f"{key}-{match[1]}", Severity.MONITOR, words.format(*match.groups()))
    return None


def _event(key: str, severity: Severity, words: str) -> Symptom:
    return Symptom(key, severity, words.strip()[:_LONGEST_REASON], lasting=False)


# The table of Xids comes with this package. Its sources are in the library's catalogue.

_FILE = Path(__file__).parents[1] / "xids.json"


class XidTable:
    """The actions that Xids of the kernel log require. An unknown Xid is watched.

    Example:
        >>> XidTable({"79": {"class": "replace", "name": "GPU fallen off the bus"}}).severity(79, "").name
        'REPLACE'
    """

    def __init__(self, rows: dict[str, Any]) -> None:
        self._rows = rows

    def severity(self, code: int, message: str) -> Severity:
        """The severity of an Xid.

        Args:
            message: Its line of the kernel log. For some Xids only that line names the action.
        """
        row = self._rows.get(str(code), {})
        found = row.get("class", "")
        if found == "message":
            found = _asked_by(message, row.get("messages", {}))
        return _SEVERITIES.get(found, Severity.MONITOR)

    def name(self, code: int) -> str:
        """The name of an Xid; empty if it has none."""
        return str(self._rows.get(str(code), {}).get("name", ""))


def read_xids(file: Path = _FILE) -> XidTable:
    """Read the table. Without it, every Xid is watched and none is acted on."""
    try:
        rows = json.loads(paths.read_text(file, "{}"))
        return XidTable({code: dict(row) for code, row in rows.items()})
    except (ValueError, AttributeError, TypeError):
        return XidTable({})


def _asked_by(message: str, messages: dict[str, str]) -> str:
    """The action in the end of a message such as `changed from 0x0 (None) to 0x2 (Node Reboot Required)`."""
    positions = {text: message.rfind(f"({text})") for text in messages}
    last = max(positions, key=lambda text: positions[text], default="")
    return messages[last] if positions.get(last, -1) >= 0 else ""


_SEVERITIES = {
    "monitor": Severity.MONITOR,
    "reset": Severity.RESET,
    "reboot": Severity.REBOOT,
    "replace": Severity.REPLACE,
}
