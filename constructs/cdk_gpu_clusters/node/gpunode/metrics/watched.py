"""What the watchdog found last, and whether there still is one.

A watchdog that is gone leaves its last word behind, mostly that all is well. So its word counts for three minutes:
longer than systemd lets it be silent (WatchdogSec) and starts it again.
"""

from __future__ import annotations

import json
from typing import Any

from .. import paths
from ..checks.check import Severity
from ..node import Node
from ..watch.memory import recall
from ..watch.service import Mode, memory_of, mode_of
from .gpus import Found
from .names import NODE_SEVERITY, UNHEALTHY_NODES

_SILENT_SECONDS = 180.0


def look_at_watchdog(node: Node, now: float) -> Found:
    """How bad the node is, as the watchdog says; nobody can tell where it has been silent; nothing without one.

    Args:
        node: The node.
        now: Seconds of uptime.
    """
    mode = mode_of(node)
    told = recall(memory_of(mode))
    severity, since = told.get("severity"), told.get("at")
    if isinstance(severity, int) and isinstance(since, (int, float)) and now - since < _SILENT_SECONDS:
        return {NODE_SEVERITY: [severity], UNHEALTHY_NODES: [int(severity >= Severity.RESET)]}
    begun = _watched_since()
    if mode is Mode.OFF or begun is None or now - begun < _SILENT_SECONDS:
        return {}
    return {NODE_SEVERITY: [int(Severity.UNKNOWN)], UNHEALTHY_NODES: [1]}


def _watched_since() -> float | None:
    """The uptime at which the boot checks of this boot ended and the watchdog was due; None where it was not."""
    try:
        result: dict[str, Any] = json.loads(paths.read_text(paths.run_folder() / "boot.json"))
        given_up = result["state"] == "failed" and result["first_boot"]
        if result["boot_id"] != paths.boot_id() or result["state"] == "starting" or given_up:
            return None
        return float(result["uptime_seconds"])
    except (ValueError, KeyError, TypeError):
        return None
