"""Events that are counted: CloudWatch makes a metric of them as they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..settings import read_settings
from .names import BOOT_FAILURES, XIDS, Metric
from .record import record

_SEVERE = ("reset", "reboot", "replace")


def counted(event: Mapping[str, Any]) -> dict[str, Any]:
    """What is added to an event so that it is counted; nothing for most of them.

    Args:
        event: The event.
    """
    metric = _metric(event)
    if metric is None:
        return {}
    fleet = read_settings().text("fleet")
    return record({metric: [1]}, fleet=fleet, instance_id=str(event.get("instance_id", "")))


def _metric(event: Mapping[str, Any]) -> Metric | None:
    what = (event.get("stage"), event.get("state"))
    if what == ("node", "failed"):
        return BOOT_FAILURES
    is_xid = what == ("watch", "seen") and str(event.get("symptom")).startswith("xid-")
    return XIDS if is_xid and event.get("severity") in _SEVERE else None
