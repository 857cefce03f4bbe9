"""The table of Xids that came with this package: what each asks for. Its sources are in the library's catalogue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import paths
from .checks.check import Severity

_FILE = Path(__file__).with_name("xids.json")


class XidTable:
    """What the Xids of the kernel log ask for; one that nobody knows is watched.

    Example:
        >>> XidTable({"79": {"class": "replace", "name": "GPU fallen off the bus"}}).severity(79, "").name
        'REPLACE'
    """

    def __init__(self, rows: dict[str, Any]) -> None:
        self._rows = rows

    def severity(self, code: int, message: str) -> Severity:
        """What an Xid asks for.

        Args:
            code: Its number.
            message: Its line of the kernel log; some Xids say only there what they ask for.
        """
        row = self._rows.get(str(code), {})
        found = row.get("class", "")
        if found == "message":
            found = _asked_by(message, row.get("messages", {}))
        return _SEVERITIES.get(found, Severity.MONITOR)

    def name(self, code: int) -> str:
        """What an Xid says; empty where nothing names it."""
        return str(self._rows.get(str(code), {}).get("name", ""))


def read_xids(file: Path = _FILE) -> XidTable:
    """Read the table; without it, every Xid is watched and none is acted on.

    Args:
        file: Where it is.
    """
    try:
        rows = json.loads(paths.read_text(file, "{}"))
        return XidTable({code: dict(row) for code, row in rows.items()})
    except (ValueError, AttributeError, TypeError):
        return XidTable({})


def _asked_by(message: str, messages: dict[str, str]) -> str:
    """What the end of a message such as `changed from 0x0 (None) to 0x2 (Node Reboot Required)` asks for."""
    places = {text: message.rfind(f"({text})") for text in messages}
    last = max(places, key=lambda text: places[text], default="")
    return messages[last] if places.get(last, -1) >= 0 else ""


_SEVERITIES = {
    "monitor": Severity.MONITOR,
    "reset": Severity.RESET,
    "reboot": Severity.REBOOT,
    "replace": Severity.REPLACE,
}
