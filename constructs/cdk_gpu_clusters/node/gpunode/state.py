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
    """Announce the end of this node to all of its programs, in `/run/gpu-cluster/ending`.

    Args:
        reason: Why it ends.

    Raises:
        OSError: If it cannot be written.
    """
    paths.write_atomically(paths.run_folder() / "ending", f"{reason}\n")


def announced() -> str:
    """Why this node is about to end; empty unless it is announced."""
    return paths.read_text(paths.below("/run/gpu-cluster/ending")).strip()


def remember(name: str, known: Mapping[str, Any]) -> None:
    """Store state, in place of earlier state.

    Args:
        name: Name of the state.
        known: Values that JSON can hold.

    Raises:
        OSError: If it cannot be written.
    """
    text = json.dumps({"boot_id": paths.boot_id(), **known})
    file = _file(name)
    if paths.read_text(file) != text:
        paths.write_atomically(file, text)


def recall(name: str) -> dict[str, Any]:
    """The state stored during this boot; empty if there is none that can be read.

    Args:
        name: Name of the state.
    """
    try:
        known = json.loads(paths.read_text(_file(name)))
        return dict(known) if known["boot_id"] == paths.boot_id() else {}
    except (ValueError, KeyError, TypeError, OSError):
        return {}


def _file(name: str) -> Path:
    return paths.run_folder() / f"{name}.json"
