"""Counters as rates: how fast they rose since the last look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from .. import efa, paths
from ..command import run
from .names import (
    EFA_RECEIVE_DROPS,
    EFA_RECEIVED,
    EFA_RETRANSMITTED,
    EFA_TRANSMITTED,
    LUSTRE_READ,
    LUSTRE_WRITTEN,
    Metric,
)

_TIMEOUT_SECONDS = 20
# AWS EC2 user guide, "Monitor an Elastic Fabric Adapter on Amazon EC2".
_EFA = {
    "rx_bytes": EFA_RECEIVED,
    "tx_bytes": EFA_TRANSMITTED,
    "retrans_pkts": EFA_RETRANSMITTED,
    "rx_drops": EFA_RECEIVE_DROPS,
}
# Lustre operations manual, "Monitoring Client Activity": name, samples, unit, least, most, sum.
_LUSTRE = {"read_bytes": LUSTRE_READ, "write_bytes": LUSTRE_WRITTEN}
_SUM = 6

Counters = dict[str, int]


def efa_counters() -> Counters:
    """Counters of every EFA device, by metric and device."""
    files = (file for device in efa.devices() for file in sorted(device.glob("ports/*/hw_counters/*")))
    found = {file: _number(paths.read_text(file)) for file in files if file.name in _EFA}
    return {
        f"{_EFA[file.name].name} {_device(file)}": value for file, value in found.items() if value is not None
    }


def lustre_counters() -> Counters:
    """Bytes that were read and written, by metric and mount."""
    outcome = run("lctl", "get_param", "llite.*.stats", timeout_seconds=_TIMEOUT_SECONDS)
    found: Counters = {}
    mount = ""
    for line in outcome.output.splitlines() if outcome.ok else ():
        words = line.split()
        if line.startswith("llite."):
            mount = line.partition("=")[0]
        elif len(words) > _SUM and words[0] in _LUSTRE:
            value = _number(words[_SUM])
            if value is not None:
                found[f"{_LUSTRE[words[0]].name} {mount}"] = value
    return found


def rates(before: Mapping[str, object], now: Counters, seconds: float) -> dict[Metric, list[float]]:
    """Rises by second; a counter that is new, or fell since its device was set back, has none.

    Args:
        before: Counters of the last look.
        now: Counters of this one.
        seconds: Time between both.
    """
    found: dict[Metric, list[float]] = {metric: [] for metric in _metrics()}
    by_name = {metric.name: metric for metric in found}
    for key, value in now.items():
        earlier = before.get(key)
        if seconds > 0 and isinstance(earlier, int) and value >= earlier:
            found[by_name[key.partition(" ")[0]]].append(round((value - earlier) / seconds, 1))
    return found


def _metrics() -> Iterable[Metric]:
    return (*_EFA.values(), *_LUSTRE.values())


def _device(file: Path) -> str:
    return f"{file.parts[-5]}/{file.parts[-3]}"


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
