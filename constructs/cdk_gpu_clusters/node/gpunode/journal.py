"""What the units that are no part of this program said in the journal: carried to AWS with the events."""

from __future__ import annotations

import json
from typing import Any

from . import paths, spool
from .command import run

#: They run before this program can, and log one JSON line for each event.
UNITS = ("gpu-software", "gpu-mig", "gpu-scratch", "gpu-lustre")
_TIMEOUT_SECONDS = 30


def collect() -> None:
    """Spool what they said since the last time; nothing where there is no journal."""
    try:
        cursor = paths.state_folder() / "journal.cursor"
    except OSError:
        return
    units = [f"--unit={unit}.service" for unit in UNITS]
    options = ("--quiet", "--no-pager", "--output=json", f"--cursor-file={cursor}")
    outcome = run("journalctl", *options, *units, timeout_seconds=_TIMEOUT_SECONDS)
    for line in outcome.output.splitlines() if outcome.ok else ():
        _keep(line)


def _keep(line: str) -> None:
    try:
        entry = json.loads(line)
        milliseconds, said = int(entry["__REALTIME_TIMESTAMP"]) // 1000, entry["MESSAGE"]
        unit = str(entry.get("_SYSTEMD_UNIT") or entry.get("UNIT") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    if isinstance(said, str):  # what is no text comes as a list of bytes
        spool.keep("events", _record(unit.partition(".")[0], said), milliseconds=milliseconds)


def _record(unit: str, said: str) -> dict[str, Any]:
    try:
        record = json.loads(said)
    except ValueError:
        record = None
    return record if isinstance(record, dict) else {"stage": unit, "state": "said", "reason": said}
