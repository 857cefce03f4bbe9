"""What the programs of this node leave for each other until the next boot.

It lies below `/run`, which is memory: a disk that is full, read-only or hung does not lose it. A reboot clears it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import paths


def announce(reason: str) -> None:
    """Tell it.

    Args:
        reason: Why it ends.

    Raises:
        OSError: If even memory takes nothing.
    """
    paths.write_atomically(paths.run_folder() / "ending", f"{reason}\n")


def announced() -> str:
    """Why this node is about to end; empty while nothing says so."""
    return paths.read_text(paths.below("/run/gpu-cluster/ending")).strip()


def remember(name: str, known: Mapping[str, Any]) -> None:
    """Keep it, in place of what was kept before.

    Args:
        name: Whose memory; what a dry run would have done is not done.
        known: Anything that JSON can hold.

    Raises:
        OSError: If even memory takes nothing.
    """
    text = json.dumps({"boot_id": paths.boot_id(), **known})
    file = _file(name)
    if paths.read_text(file) != text:
        paths.write_atomically(file, text)


def recall(name: str) -> dict[str, Any]:
    """What was kept during this boot; empty where there is nothing, or nothing that can be read.

    Args:
        name: Whose memory.
    """
    try:
        known = json.loads(paths.read_text(_file(name)))
        return dict(known) if known["boot_id"] == paths.boot_id() else {}
    except (ValueError, KeyError, TypeError, OSError):
        return {}


def _file(name: str) -> Path:
    return paths.run_folder() / f"{name}.json"
