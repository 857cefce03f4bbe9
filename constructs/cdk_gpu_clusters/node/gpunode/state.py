"""State that the programs of this node share until the next boot.

By default it is below `/run`, which is memory: a disk that is full, read-only or hung does not lose it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import paths
from .quoting import one_line

# What this process stored last, by name: it stays readable here if it could not be written.
_latest: dict[str, Mapping[str, Any]] = {}


def announce(reason: str) -> None:
    """Announce the end of this node to all of its programs, in `/run/gpu-cluster/ending`.

    Raises:
        OSError: If it cannot be written.
    """
    paths.write_atomically(paths.run_folder() / "ending", f"{one_line(reason)}\n")


def announced() -> str:
    """Why this node is about to end; empty unless it is announced."""
    return paths.read_text(paths.below("/run/gpu-cluster/ending")).strip()


def remember(name: str, known: Mapping[str, Any], folder: Callable[[], Path] | None = None) -> None:
    """Store state of this boot, in place of earlier state.

    Args:
        folder: Its folder; the one in memory by default.

    Raises:
        OSError: If it cannot be written.
    """
    _latest[name] = dict(known)
    text = json.dumps({"boot_id": paths.boot_id(), **known})
    file = _file(name, folder)
    if paths.read_text(file) != text:
        paths.write_atomically(file, text)


def latest(name: str) -> Mapping[str, Any]:
    """The state that this process stored last, even if it could not be written; empty if it stored none."""
    return _latest.get(name, {})


def recall(name: str, folder: Callable[[], Path] | None = None) -> dict[str, Any]:
    """The state that a program stored during this boot; empty if there is none that can be read.

    Args:
        folder: Its folder; the one in memory by default.
    """
    try:
        known = json.loads(paths.read_text(_file(name, folder)))
        return dict(known) if known["boot_id"] == paths.boot_id() else {}
    except (ValueError, KeyError, TypeError, OSError):
        return {}


def boot_result() -> dict[str, Any]:
    """The result of the checks of this boot, as `boot.json` has it; empty if there is none."""
    # Memory accepts what a disk may not, so its result is the later one.
    return recall("boot") or recall("boot", paths.state_folder)


def _file(name: str, folder: Callable[[], Path] | None) -> Path:
    return (folder or paths.run_folder)() / f"{name}.json"
