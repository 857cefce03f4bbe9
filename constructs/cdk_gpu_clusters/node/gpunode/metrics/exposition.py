"""What this node measured last, in the text format of Prometheus.

Source: Prometheus, "Exposition formats", text-based format, version 0.0.4.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from .. import paths
from ..node import Node
from ..state import recall, remember
from .names import METRICS, Metric
from .record import count_of

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Label of a metric with several values, by what has a value of its own.
LABELS = {"GPU": "gpu", "MIG device": "mig_device", "EFA device": "device", "mount": "mount"}
_MEASURED = "measured"
# The node measures once a minute. Older values would look like those of a node that works.
_OLDEST_SECONDS = 180.0
#: When this node measured.
MEASURED_AT = "gpu_cluster_measured_timestamp_seconds"


class Reading(float):
    """A value, and the GPU, device or mount that it belongs to."""

    def __new__(cls, value: float, label: str) -> Reading:  # noqa: PYI034 - Python 3.9 has no Self
        """Make it."""
        made = super().__new__(cls, value)
        made.label = label
        return made

    label: str


def keep_readings(found: Mapping[Metric, Sequence[float]]) -> None:
    """Keep what was measured for scrapes, which never ask the driver."""
    known = {
        "at": paths.uptime_seconds(),
        "time": time.time(),
        "values": {
            metric.name: [[getattr(value, "label", ""), float(value)] for value in values]
            for metric, values in found.items()
            if values
        },
    }
    try:
        remember(_MEASURED, known)
    except OSError as fault:
        sys.stderr.write(f"not kept for scrapes: {fault}\n")


def exposition(node: Node) -> str:
    """The text of `/metrics`: the values of the last three minutes, and the events since the boot."""
    whose = {"fleet": node.settings.text("fleet") or "unnamed", "instance_id": node.instance_id or "unknown"}
    known = recall(_MEASURED)
    at, values = known.get("at"), known.get("values")
    is_recent = isinstance(at, (int, float)) and 0 <= paths.uptime_seconds() - at <= _OLDEST_SECONDS
    measured = values if is_recent and isinstance(values, dict) else {}
    lines: list[str] = []
    for metric in METRICS:
        if metric.per == "event":
            samples = [("", float(recall(count_of(metric)).get("count", 0)))]
        else:
            samples = [(str(label), float(value)) for label, value in measured.get(metric.name, ())]
        lines += _family(metric, samples, whose)
    if is_recent:
        lines += [
            f"# HELP {MEASURED_AT} When this node measured, in seconds since 1970.",
            f"# TYPE {MEASURED_AT} gauge",
            f"{MEASURED_AT}{_labels(whose)} {float(known['time'])!r}",
        ]
    return "\n".join(lines) + "\n"


def _family(metric: Metric, samples: Sequence[tuple[str, float]], whose: Mapping[str, str]) -> Iterator[str]:
    if not samples:
        return
    name, kind = metric.prometheus_name, "counter" if metric.per == "event" else "gauge"
    meaning = metric.meaning.replace("\\", "\\\\").replace("\n", " ")
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for label, value in samples:
        own = {LABELS[metric.per]: label} if metric.per in LABELS else {}
        yield f"{name}{_labels({**whose, **own})} {value!r}"


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
