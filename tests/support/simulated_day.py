"""A day of 16 p5.48xlarge nodes as metrics: records that the node software writes, read as CloudWatch reads them.

Node 5 trains until 14:00, has an Xid then, is rebooted and fails one boot. All nodes are idle from 20:00.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean as mean
from typing import Any
from unittest.mock import patch

from cdk_gpu_clusters.node.gpunode.metrics import names
from cdk_gpu_clusters.node.gpunode.metrics.record import record

START = int(datetime(2026, 11, 26, tzinfo=UTC).timestamp())
MINUTES, NODES, GPUS, EFA_DEVICES, TARGETS = 24 * 60, 16, 8, 32, 12
FLEET, GROUP, FILE_SYSTEM, RESERVATION = "llama/Fleet", "llama-group", "fs-0123456789abcdef0", "cr-0123456789abcdef0"
_SICK, _FROM, _UNTIL, _IDLE_FROM = 5, 14 * 60, 14 * 60 + 25, 20 * 60

_STATISTICS: Mapping[str, Callable[[list[float]], float]] = {
    "Sum": sum,
    "Minimum": min,
    "Maximum": max,
    "Average": mean,
}

Key = tuple[str, str, tuple[tuple[str, str], ...]]


@dataclass
class Metrics:
    """Values by metric and minute."""

    values: dict[Key, dict[int, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))

    def read(self, text: Mapping[str, Any]) -> None:
        """Take a record in the embedded metric format: one metric for each set of dimensions."""
        minute = text["_aws"]["Timestamp"] // 60_000
        for directive in text["_aws"]["CloudWatchMetrics"]:
            for dimensions in directive["Dimensions"]:
                of = tuple((name, str(text[name])) for name in dimensions)
                for metric in directive["Metrics"]:
                    value = text[metric["Name"]]
                    numbers = value if isinstance(value, list) else [value]
                    self.values[directive["Namespace"], metric["Name"], of][minute] += numbers

    def add(self, namespace: str, name: str, dimension: tuple[str, str], minute: int, *values: float) -> None:
        """Take values that a service of AWS sends."""
        self.values[namespace, name, (dimension,)][START // 60 + minute] += values

    def statistic(self, key: Key, statistic: str, period_seconds: int) -> list[tuple[int, float]]:
        """Points of a line: the second at which each period begins, and its value."""
        periods: dict[int, list[float]] = defaultdict(list)
        for minute, numbers in self.values.get(key, {}).items():
            periods[minute * 60 // period_seconds * period_seconds] += numbers
        return sorted((second, float(_STATISTICS[statistic](numbers))) for second, numbers in periods.items())


def simulated_day() -> Metrics:
    """The metrics of the day."""
    day = Metrics()
    for minute in range(MINUTES):
        with patch("time.time", return_value=START + 60 * minute):
            for node in range(NODES):
                for values in _of_node(node, minute):
                    day.read(record(values, fleet=FLEET, instance_id=f"i-{node:017x}"))
        _of_services(day, minute)
    return day


def _of_node(node: int, minute: int) -> Iterator[Mapping[names.Metric, Sequence[float]]]:
    sick = node == _SICK and _FROM <= minute < _UNTIL
    if node == _SICK and minute == _FROM:
        yield {names.XIDS: [1]}
    if node == _SICK and minute == _FROM + 12:
        yield {names.BOOT_FAILURES: [1]}
    yield {names.NODE_SEVERITY: [4 if sick else 0], names.UNHEALTHY_NODES: [int(sick)]}
    if sick:
        return
    busy = minute < _IDLE_FROM
    wave = math.sin(minute / 37 + node)
    load = 92 + 6 * wave if busy else 0
    yield {
        names.GPU_UTILIZATION: [round(load + gpu / 8) if busy else 0 for gpu in range(GPUS)],
        names.GPU_MEMORY_USED: [(70 if busy else 1) * 2**30] * GPUS,
        names.GPU_MEMORY_USED_PERCENT: [88 + wave if busy else 1] * GPUS,
        names.GPU_POWER_DRAW_WATTS: [640 + 30 * wave if busy else 115] * GPUS,
        names.GPU_TEMPERATURE_CELSIUS: [round(64 + 4 * wave) if busy else 33] * GPUS,
        names.IDLE_SECONDS: [0 if busy else 60 * (minute - _IDLE_FROM)],
        names.EFA_TRANSMITTED: [2.9e9 + 4e8 * wave if busy else 0] * EFA_DEVICES,
        names.EFA_RECEIVED: [2.8e9 + 4e8 * wave if busy else 0] * EFA_DEVICES,
        names.EFA_RETRANSMITTED: [(3 if minute % 180 == 0 else 0)] * EFA_DEVICES,
        names.EFA_RECEIVE_DROPS: [0] * EFA_DEVICES,
        names.LUSTRE_READ: [4e8 * (1 + wave) if busy else 0],
        names.LUSTRE_WRITTEN: [2.5e9 if busy and minute % 60 < 4 else 0],
    }


def _of_services(day: Metrics, minute: int) -> None:
    out = int(_FROM + 5 <= minute < _UNTIL)
    group, store = ("AutoScalingGroupName", GROUP), ("FileSystemId", FILE_SYSTEM)
    day.add("AWS/AutoScaling", "GroupInServiceInstances", group, minute, NODES - out)
    day.add("AWS/AutoScaling", "GroupDesiredCapacity", group, minute, NODES)
    free = [(1.1e12 - 4e8 * minute) * (1 - target / 50) for target in range(TARGETS)]
    day.add("AWS/FSx", "FreeDataStorageCapacity", store, minute, *free)
    day.add("AWS/FSx", "MetadataOperations", store, minute, 4000 + 3500 * math.sin(minute / 50))
    if minute % 5 == 0:
        reservation = ("CapacityReservationId", RESERVATION)
        day.add("AWS/EC2CapacityReservations", "AvailableInstanceCount", reservation, minute, out)
