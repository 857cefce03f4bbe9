"""The journal of a machine: whether it runs, reboots or is gone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Where systemd-journald keeps it over reboots, if the directory is there.
JOURNAL = "var/log/journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the journal.

    Attributes:
        unit: Unit that said it.
        text: What it said.
        boot: Number of the boot, from 1.
        seconds: When, by the clock of the day.
    """

    unit: str
    text: str
    boot: int
    seconds: float

    @property
    def event(self) -> dict[str, Any]:
        """The JSON document that the text is; empty where it is none."""
        return dict(json.loads(self.text)) if self.text.startswith("{") else {}


def read_journal(disk: Path) -> list[Entry]:
    """Everything that the units of a machine said, in its order, from its disk."""
    done = subprocess.run(
        ["journalctl", "--directory", str(disk / JOURNAL), "--output=json", "--all", "--quiet"],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return entries(done.stdout.splitlines())


def entries(lines: Iterable[str]) -> list[Entry]:
    """The entries of a journal that `journalctl --output=json` wrote.

    Args:
        lines: Its lines, with those of earlier boots first.
    """
    rows = [json.loads(line) for line in lines]
    boots = list(dict.fromkeys(row["_BOOT_ID"] for row in rows))
    return [
        Entry(
            unit=row.get("UNIT", row.get("_SYSTEMD_UNIT", "")),
            text=row["MESSAGE"] if isinstance(row.get("MESSAGE"), str) else "",
            boot=boots.index(row["_BOOT_ID"]) + 1,
            seconds=int(row["__REALTIME_TIMESTAMP"]) / 1e6,
        )
        for row in rows
    ]
