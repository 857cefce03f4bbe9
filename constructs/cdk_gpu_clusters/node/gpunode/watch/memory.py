"""What the watchdog knows of this boot, for the process that comes after this one.

It lies below `/run`, which is memory: a disk that is full or read-only takes nothing from it, and a reboot clears it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import paths


def remember(known: Mapping[str, Any]) -> None:
    """Keep it, in place of what was kept before.

    Args:
        known: Anything that JSON can hold.

    Raises:
        OSError: If even memory takes nothing.
    """
    text = json.dumps({"boot_id": paths.boot_id(), **known})
    file = _file()
    if paths.read_text(file) != text:
        paths.write_atomically(file, text)


def recall() -> dict[str, Any]:
    """What was kept during this boot; empty where there is nothing, or nothing that can be read."""
    try:
        known = json.loads(paths.read_text(_file()))
        return dict(known) if known["boot_id"] == paths.boot_id() else {}
    except (ValueError, KeyError, TypeError, OSError):
        return {}


def _file() -> Path:
    return paths.run_folder() / "watch.json"
