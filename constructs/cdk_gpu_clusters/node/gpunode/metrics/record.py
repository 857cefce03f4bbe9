"""Records in CloudWatch's embedded metric format: log events that CloudWatch Logs turns into metrics.

Source: CloudWatch user guide, "Specification: Embedded metric format": at most 100 metrics in a directive, and at most
100 values of one metric.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..node import read_settings
from ..state import recall, remember
from .names import BOOT_FAILURES, FLEET, INSTANCE, NAMESPACE, XIDS, Metric

_MOST_VALUES = 100

Values = Mapping[Metric, Sequence[float]]


def record(values: Values, *, fleet: str, instance_id: str) -> dict[str, Any]:
    """The record of some metrics at this moment; empty if none of them has a value.

    Args:
        values: Metric -> a value for each GPU, device or mount.
    """
    given = {metric: list(numbers[:_MOST_VALUES]) for metric, numbers in values.items() if numbers}
    if not given:
        return {}
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [[FLEET], [FLEET, INSTANCE]],
        "Metrics": [{"Name": metric.name, "Unit": metric.unit} for metric in given],
    }
    return {
        "_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]},
        FLEET: fleet or "unnamed",
        INSTANCE: instance_id or "unknown",
        **{metric.name: numbers[0] if len(numbers) == 1 else numbers for metric, numbers in given.items()},
    }


def count_of(metric: Metric) -> str:
    """Name of the state with the number of these events since the boot."""
    return f"count-{metric.name}"


_SEVERE = ("reset", "reboot", "replace")


def counted(event: Mapping[str, Any]) -> dict[str, Any]:
    """The addition to an event from which CloudWatch makes a metric; nothing for most events."""
    metric = _metric(event)
    if metric is None:
        return {}
    # Each of these metrics has one program that writes it, and so does its count.
    with suppress(OSError):
        remember(count_of(metric), {"count": int(recall(count_of(metric)).get("count", 0)) + 1})
    fleet = read_settings().text("fleet")
    return record({metric: [1]}, fleet=fleet, instance_id=str(event.get("instance_id", "")))


def _metric(event: Mapping[str, Any]) -> Metric | None:
    what = (event.get("stage"), event.get("state"))
    if what == ("node", "failed"):
        return BOOT_FAILURES
    is_xid = what == ("watch", "seen") and str(event.get("symptom")).startswith("xid-")
    return XIDS if is_xid and event.get("severity") in _SEVERE else None
