"""What messages of the kernel mean for the node."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from re import Match, Pattern

from ..checks.check import Severity
from ..xids import XidTable
from .kernel_log import Record
from .symptom import Symptom

_LONGEST_REASON = 300

# NVIDIA, "XID errors": `NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: ...`. Old drivers leave PCI: out, and
# on MIG devices more words stand in the brackets.
_XID = re.compile(r"^NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\): (\d+),?\s*(.*)")
# NVIDIA Fabric Manager user guide, appendix D: `nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 30 ...`.
_SXID = re.compile(r"SXid \(PCI:([0-9A-Fa-f:.]+)\): (\d+), (Fatal|Non-fatal),?\s*(.*)")
# Lustre, ptlrpc/import.c: what was in flight at that server is lost.
_EVICTED = re.compile(r"This client was evicted by ([^;\s]+)")
# The same: `fsx-OST0001-osc-ffff: Connection to fsx-OST0001 (at 10.0.0.9@tcp) was lost; in progress operations ...`.
_CUT_OFF = re.compile(r"Lustre: \S+: Connection to (\S+) \(at ([^)\s]+)\) was lost")
# Linux kernel, kernel/hung_task.c.
_HUNG = re.compile(r"INFO: task (\S+):\d+ blocked for more than (\d+) seconds")


def symptom_of(record: Record, table: XidTable) -> Symptom | None:
    """What a message says about the node; None for the many that say nothing.

    One message is enough: the kernel says what happened, and does not say it twice.

    Args:
        record: The message.
        table: What Xids ask for.
    """
    for pattern, make in _MEANINGS.items():
        match = pattern.search(record.text)
        if match:
            return make(match, table)
    return None


def _xid(match: Match[str], table: XidTable) -> Symptom:
    device, code, text = match[1], int(match[2]), match[3]
    name = table.name(code)
    words = f"Xid {code}{f' ({name})' if name else ''} on {device}: {text}"
    return _event(f"xid-{code}-{device}", table.severity(code, match[0]), words)


def _sxid(match: Match[str], _: XidTable) -> Symptom:
    """Fatal ones ask for a restart of the guest or of its host (appendix D.5 and D.6), others for nothing."""
    severity = Severity.REBOOT if match[3] == "Fatal" else Severity.MONITOR
    words = f"SXid {match[2]} ({match[3]}) on {match[1]}: {match[4]}"
    return _event(f"sxid-{match[2]}-{match[1]}", severity, words)


def _evicted(match: Match[str], _: XidTable) -> Symptom:
    words = f"Lustre: evicted by {match[1]}; what was in flight there is lost"
    return _event(f"evicted-{match[1]}", Severity.MONITOR, words)


def _cut_off(match: Match[str], _: XidTable) -> Symptom:
    words = f"Lustre: connection to {match[1]} at {match[2]} lost; what is in flight there waits for it"
    return _event(f"cut-off-{match[1]}", Severity.MONITOR, words)


def _hung(match: Match[str], _: XidTable) -> Symptom:
    words = f"{match[1]} is blocked in the kernel for more than {match[2]} s"
    return _event(f"hung-{match[1]}", Severity.MONITOR, words)


def _event(key: str, severity: Severity, words: str) -> Symptom:
    return Symptom(key, severity, words.strip()[:_LONGEST_REASON], lasting=False)


_MEANINGS: Mapping[Pattern[str], Callable[[Match[str], XidTable], Symptom]] = {
    _XID: _xid,
    _SXID: _sxid,
    _EVICTED: _evicted,
    _CUT_OFF: _cut_off,
    _HUNG: _hung,
}
