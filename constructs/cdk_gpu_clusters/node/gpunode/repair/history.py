"""The repairs of this instance, which survive a reboot and a killed process.

They are in `/var/lib/gpu-cluster/repairs.json`, and also in memory, since the disk may be full, read-only or hung. They
belong to one instance: an image made of a node must not pass them on. A file that cannot be read, or that holds
anything else, counts as no repairs.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

from .. import paths
from ..checks.check import Severity
from ..command import Background

_NAME = "repairs"
# Enough for a day of repairs, and small enough to be read at every start.
_MOST_PAST = 50
_MOST_BYTES = 256 * 1024
_MOST_WORDS = 400
# Replacing a small file takes milliseconds. A disk that hangs must not hold the repair.
_DISK_SECONDS = 5.0


class Step(Enum):
    """A step of a repair. It is recorded before it is taken, and can be repeated."""

    #: Store the evidence, and find room in the fleet's limit.
    BEGIN = "begin"
    #: Keep new work away from the node.
    HOLD = "hold"
    #: Wait until the node has no work.
    WAIT = "wait"
    #: Send SIGTERM to the jobs that are left.
    END_WORK = "end-work"
    RESET = "reset"
    REBOOT = "reboot"
    #: Repeat the boot checks.
    CHECK = "check"
    #: Give the node work again.
    RELEASE = "release"
    #: Take the node out of service for good.
    TAKE_OUT = "take-out"


class End(Enum):
    """How a repair ended."""

    OK = "ok"
    #: The fault is still there, or the repair itself failed.
    FAILED = "failed"
    #: It was given up before it changed anything but the hold.
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Repair:
    """One repair.

    Attributes:
        rung: RESET, REBOOT or REPLACE.
        reason: What required it.
        at: When it began, in seconds since 1970.
        step: The step that it takes now, or took last.
        boot_id: The boot in which that step began.
        uptime_seconds: Uptime of that boot when the step began.
        holds: Whether this software keeps new work away from the node.
        follows: Whether an earlier repair of the fault failed, and may have left the GPUs in any state. It is then not
            over because the fault has gone.
        slot: Its share of the fleet's limit; empty until it has one.
        evidence: Address of the evidence; empty until it is stored.
        end: How it ended; None while it goes on.
    """

    rung: Severity
    reason: str
    at: float
    step: Step = Step.BEGIN
    boot_id: str = ""
    uptime_seconds: float = 0.0
    holds: bool = False
    follows: bool = False
    slot: str = ""
    evidence: str = ""
    end: End | None = None


class History:
    """The repairs of one instance.

    Attributes:
        past: Repairs that ended, the oldest first.
        current: The one that goes on; None if there is none.
        is_durable: Whether the disk has taken the last change, so that a reboot does not lose it.
    """

    def __init__(self, instance_id: str, clock: Callable[[], float] = time.time) -> None:
        """Read what earlier processes recorded.

        Args:
            clock: Seconds since 1970.
        """
        self._instance_id, self._clock = instance_id, clock
        self._writing: Background[bool] = Background()
        self.is_durable: bool = True
        known = max((_read(folder, instance_id) for folder in _FOLDERS), key=lambda found: found.version)
        self.past: list[Repair] = list(known.past)
        self.current: Repair | None = known.current
        self._version = known.version

    def begin(self, rung: Severity, reason: str, *, holds: bool = False, follows: bool = False) -> Repair:
        """Begin a repair.

        Args:
            holds: Whether an earlier repair already keeps new work away.
            follows: Whether an earlier repair of the fault failed.
        """
        begun = Repair(rung, reason[:_MOST_WORDS], self._clock(), holds=holds, follows=follows)
        return self._set(replace(begun, boot_id=paths.boot_id(), uptime_seconds=paths.uptime_seconds()))

    def enter(self, step: Step) -> Repair:
        """Record a step of the current repair, before it is taken."""
        now = paths.uptime_seconds()
        return self.change(step=step, boot_id=paths.boot_id(), uptime_seconds=now)

    def change(self, **values: Any) -> Repair:
        """Change the current repair."""
        return self._set(replace(self._ongoing(), **values))

    def finish(self, end: End) -> Repair:
        """End the current repair. One that was cancelled leaves no trace."""
        ended = replace(self._ongoing(), end=end)
        if end is not End.CANCELLED:
            self.past = [*self.past, ended][-_MOST_PAST:]
        self.current = None
        self._write()
        return ended

    def _ongoing(self) -> Repair:
        if self.current is None:
            raise ValueError("no repair goes on")
        return self.current

    def _set(self, repair: Repair) -> Repair:
        self.current = repair
        self._write()
        return repair

    def _write(self) -> None:
        self._version += 1
        current = None if self.current is None else _plain(self.current)
        known = {
            "instance_id": self._instance_id,
            "version": self._version,
            "current": current,
            "past": [_plain(one) for one in self.past],
        }
        text = json.dumps(known)
        _store(paths.run_folder, text)
        if self._writing.take(0) is None and self._writing.busy:
            # The disk still hangs on an earlier version.
            self.is_durable = False
            return
        try:
            self._writing.start(lambda: _store(paths.state_folder, text), time.monotonic())
        except RuntimeError:
            self.is_durable = False
            return
        self.is_durable = self._writing.take(_DISK_SECONDS) is True


@dataclass(frozen=True)
class _Known:
    past: tuple[Repair, ...] = ()
    current: Repair | None = None
    version: int = 0


_FOLDERS = (paths.state_folder, paths.run_folder)


def _store(folder: Callable[[], Path], text: str) -> bool:
    try:
        paths.write_atomically(folder() / f"{_NAME}.json", text)
    except OSError:
        return False
    return True


def _read(folder: Callable[[], Path], instance_id: str) -> _Known:
    try:
        file = folder() / f"{_NAME}.json"
        if file.stat().st_size > _MOST_BYTES:
            return _Known()
        known = json.loads(paths.read_text(file))
        if known["instance_id"] != instance_id:
            return _Known()
        current = known["current"]
        return _Known(
            tuple(_repair(one) for one in known["past"])[-_MOST_PAST:],
            None if current is None else _repair(current),
            int(known["version"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return _Known()


def _plain(repair: Repair) -> dict[str, Any]:
    end = None if repair.end is None else repair.end.value
    return {**asdict(repair), "rung": repair.rung.name.lower(), "step": repair.step.value, "end": end}


def _repair(plain: Mapping[str, Any]) -> Repair:
    """A repair as it was stored.

    Raises:
        ValueError: If it is something else; also KeyError or TypeError.
    """
    known = {one.name: plain[one.name] for one in fields(Repair)}
    at, uptime = float(known["at"]), float(known["uptime_seconds"])
    rung, end = Severity[str(known["rung"]).upper()], known["end"]
    if rung < Severity.RESET or not (math.isfinite(at) and math.isfinite(uptime)):
        raise ValueError("not a repair")
    return Repair(
        rung=rung,
        reason=str(known["reason"])[:_MOST_WORDS],
        at=at,
        step=Step(known["step"]),
        boot_id=str(known["boot_id"]),
        uptime_seconds=uptime,
        holds=bool(known["holds"]),
        follows=bool(known["follows"]),
        slot=str(known["slot"]),
        evidence=str(known["evidence"]),
        end=None if end is None else End(end),
    )
