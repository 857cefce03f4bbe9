"""Measures this node once, and spools what it found."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .. import paths, spool
from ..node import Node
from ..watch.memory import recall, remember
from .gpus import Found, is_active, look_at_gpus, look_at_mig_devices
from .names import IDLE_SECONDS
from .rates import Counters, efa_counters, lustre_counters, rates
from .record import record
from .watched import look_at_watchdog

_MEMORY = "metrics"


def measure(node: Node) -> dict[str, Any]:
    """Measure, and spool the record; a tool that is broken or missing takes away its own metrics only.

    Args:
        node: This node.

    Returns:
        The record; empty where there was nothing to measure.
    """
    settings, before, now = node.settings, recall(_MEMORY), paths.uptime_seconds()
    found: Found = {}
    if settings.text("accelerator") == "gpu":
        found.update(_tried(look_at_gpus))
    if settings.number("mig_count"):
        found.update(_tried(look_at_mig_devices))
    counters: Counters = {}
    if settings.number("efa_count"):
        counters.update(_tried(efa_counters))
    if settings.number("mounts"):
        counters.update(_tried(lustre_counters))
    found.update(rates(before.get("counters", {}), counters, now - float(before.get("at", now))))
    active_at = _active_at(found, before, now)
    if active_at is not None:
        found[IDLE_SECONDS] = [round(now - active_at)]
    found.update(_tried(lambda: look_at_watchdog(node, now)))
    _remember({"at": now, "active_at": active_at, "counters": counters})
    made = record(found, fleet=settings.text("fleet"), instance_id=node.instance_id)
    if made:
        spool.keep("metrics", made)
    return made


def _active_at(found: Found, before: dict[str, Any], now: float) -> float | None:
    """When a GPU was last active, in seconds of uptime; the start of the kernel if none was."""
    active = is_active(found)
    if active:
        return now
    earlier = before.get("active_at")
    return earlier if isinstance(earlier, (int, float)) else None if active is None else 0.0


def _tried(look: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    try:
        return look()
    except Exception as fault:  # noqa: BLE001 - one broken tool must not take the other metrics away
        sys.stderr.write(f"not measured: {type(fault).__name__}: {fault}\n")
        return {}


def _remember(known: dict[str, Any]) -> None:
    try:
        remember(_MEMORY, known)
    except OSError as fault:
        sys.stderr.write(f"not remembered: {fault}\n")
