"""Error counters of EFA devices: a few now and then are the daily business of a network, many at once are not.

Counters and limits: aws/eks-node-monitoring-agent @ 5313543, monitors/networking/efa/efa.go, which calls them what it
uses while there is no authoritative approach. What they count: AWS EC2 user guide, "Monitor an Elastic Fabric Adapter
on Amazon EC2". They are watched only: the cause may be any node of the fabric.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from .. import efa, paths
from ..checks.check import Severity
from .symptom import Symptom

_EVENTS, _PACKETS, _BYTES = 100, 1_000, 1_000_000
_REFILL_PER_SECOND = 1

#: Counter -> what it may rise by at once.
_BURSTS: Mapping[str, int] = {
    "rx_drops": _EVENTS,
    "rdma_read_wr_err": _EVENTS,
    "rdma_write_wr_err": _EVENTS,
    "unresponsive_remote_events": _EVENTS,
    "impaired_remote_conn_events": _EVENTS,
    "retrans_timeout_events": _EVENTS,
    "retrans_pkts": _PACKETS,
    "retrans_bytes": _BYTES,
}


class EfaCounters:
    """Looks at the counters of every device, against a token bucket for each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[Path, _Bucket] = {}

    def look(self) -> list[Symptom]:
        """Counters that rose by more than their bucket held."""
        return [symptom for device in efa.devices() for symptom in self._of_device(device)]

    def _of_device(self, device: Path) -> list[Symptom]:
        found = []
        for file in sorted(device.glob("ports/*/hw_counters/*")):
            if file.name in _BURSTS:
                risen = self._risen(file)
                if risen:
                    words = f"EFA {device.name} port {file.parent.parent.name}: {file.name} rose by {risen}"
                    found.append(Symptom(f"efa-{device.name}-{file.name}", Severity.MONITOR, words))
        return found

    def _risen(self, file: Path) -> int:
        """By how much it rose, if that was too much."""
        try:
            value = int(paths.read_text(file))
        except ValueError:
            return 0
        bucket = self._buckets.get(file)
        if bucket is None:
            self._buckets[file] = _Bucket(value, _BURSTS[file.name], self._clock())
            return 0
        return bucket.take(value, self._clock())


class _Bucket:
    """Tokens for the steps of one counter."""

    def __init__(self, value: int, burst: int, now: float) -> None:
        self._value, self._burst = value, burst
        self._tokens, self._at = float(burst), now

    def take(self, value: int, now: float) -> int:
        """Take a token for each step; the steps, if there were not enough tokens, which then stay.

        A counter that fell was set back with its device, and begins anew.
        """
        rise, self._value = max(0, value - self._value), value
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * _REFILL_PER_SECOND)
        self._at = now
        if rise > self._tokens:
            return rise
        self._tokens -= rise
        return 0
