"""Measures this node once and spools the record."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import nvidia_smi, paths, spool
from ..checks.check import Severity
from ..command import run
from ..devices import efa_devices
from ..node import Node
from ..nvidia_smi import number, query
from ..state import recall, remember
from ..watch.mode import Mode, memory_of, mode_of
from .exposition import Reading, keep_readings
from .names import (
    EFA_RECEIVE_DROPS,
    EFA_RECEIVED,
    EFA_RETRANSMITTED,
    EFA_TRANSMITTED,
    GPU_MEMORY_USED,
    GPU_MEMORY_USED_PERCENT,
    GPU_POWER_DRAW_WATTS,
    GPU_TEMPERATURE_CELSIUS,
    GPU_UTILIZATION,
    IDLE_SECONDS,
    LUSTRE_READ,
    LUSTRE_WRITTEN,
    MIG_DEVICES_IN_USE,
    MIG_MEMORY_USED,
    MIG_MEMORY_USED_PERCENT,
    NODE_SEVERITY,
    UNHEALTHY_NODES,
    Metric,
)
from .record import record

_MEMORY = "metrics"


def measure(node: Node) -> dict[str, Any]:
    """Measure, and spool the record. A broken or missing tool affects only its own metrics.

    Returns:
        The record; empty if there was nothing to measure.
    """
    settings, before, now = node.settings, recall(_MEMORY), paths.uptime_seconds()
    found: Found = {}
    if settings.text("accelerator") == "gpu":
        found.update(_tried(measure_gpus))
    if settings.number("mig_count"):
        found.update(_tried(measure_mig_devices))
    counters: Counters = {}
    if settings.number("efa_count"):
        counters.update(_tried(efa_counters))
    if settings.number("mounts"):
        counters.update(_tried(lustre_counters))
    found.update(rates(before.get("counters", {}), counters, now - float(before.get("at", now))))
    active_at = _active_at(found, before, now)
    if active_at is not None:
        found[IDLE_SECONDS] = [round(now - active_at)]
    found.update(_tried(lambda: measure_watchdog(node, now)))
    try:
        remember(_MEMORY, {"at": now, "active_at": active_at, "counters": counters})
    except OSError as fault:
        sys.stderr.write(f"not remembered: {fault}\n")
    keep_readings(found)
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
    except Exception as fault:  # noqa: BLE001 - a broken tool must affect only its own metrics
        sys.stderr.write(f"not measured: {type(fault).__name__}: {fault}\n")
        return {}


# A watchdog that is gone leaves its last state behind, usually a healthy one. So that state counts for three minutes
# only, which is longer than systemd lets it be silent (WatchdogSec) and then restarts it.

_SILENT_SECONDS = 180.0


def measure_watchdog(node: Node, now: float) -> Found:
    """The severity that the watchdog last found; UNKNOWN if it is silent, and nothing without a watchdog."""
    mode = mode_of(node)
    state = recall(memory_of(mode))
    severity, since = state.get("severity"), state.get("at")
    if isinstance(severity, int) and isinstance(since, (int, float)) and now - since < _SILENT_SECONDS:
        return {NODE_SEVERITY: [severity], UNHEALTHY_NODES: [int(severity >= Severity.RESET)]}
    begun = _watched_since()
    if mode is Mode.OFF or begun is None or now - begun < _SILENT_SECONDS:
        return {}
    return {NODE_SEVERITY: [int(Severity.UNKNOWN)], UNHEALTHY_NODES: [1]}


def _watched_since() -> float | None:
    """The uptime at which this boot ended and the watchdog was due; None if it was not."""
    result = recall("boot")
    abandoned = result.get("state") == "failed" and result.get("first_boot")
    uptime = result.get("uptime_seconds")
    if result.get("state") == "starting" or abandoned or not isinstance(uptime, (int, float)):
        return None
    return float(uptime)


# Under MIG the driver has no utilization: "On MIG-enabled GPUs, querying device utilization rates is not currently
# supported" (NVML API reference, nvmlDeviceGetUtilizationRates). It reports the memory of each MIG device, and which
# of them processes run on. Activity there needs the profiling metrics of DCGM, such as
# `DCGM_FI_PROF_GR_ENGINE_ACTIVE`. This program does not require DCGM.

Found = dict[Metric, list[float]]

_MIB = 1024 * 1024
_TIMEOUT_SECONDS = 30
_FIELDS = {
    "utilization.gpu": (GPU_UTILIZATION, 1),
    "memory.used": (GPU_MEMORY_USED, _MIB),
    "power.draw": (GPU_POWER_DRAW_WATTS, 1),
    "temperature.gpu": (GPU_TEMPERATURE_CELSIUS, 1),
}


def measure_gpus() -> Found:
    """Measurements of GPUs. A GPU that does not support one, or does not answer, adds no value."""
    found: Found = {metric: [] for metric, _ in _FIELDS.values()}
    found[GPU_MEMORY_USED_PERCENT] = []
    for row in query([*_FIELDS, "memory.total"], timeout_seconds=_TIMEOUT_SECONDS).rows:
        cells, gpu = {field: number(cell) for field, cell in row.items()}, row["index"]
        for field, (metric, factor) in _FIELDS.items():
            value = cells.get(field)
            if value is not None:
                found[metric].append(Reading(value * factor, gpu))
        found[GPU_MEMORY_USED_PERCENT] += _percent(cells.get("memory.used"), cells.get("memory.total"), gpu)
    return found


def measure_mig_devices() -> Found:
    """Measurements of MIG devices: their memory, and how many have processes."""
    found: Found = {MIG_MEMORY_USED: [], MIG_MEMORY_USED_PERCENT: [], MIG_DEVICES_IN_USE: []}
    outcome = nvidia_smi.call("-q", "-x", timeout_seconds=_TIMEOUT_SECONDS)
    try:
        gpus = ET.fromstring(outcome.output).findall("gpu")  # noqa: S314 - the driver's own program
    except ET.ParseError:
        return found
    in_use = 0
    for gpu in gpus:
        devices = gpu.findall("mig_devices/mig_device")
        for device in devices:
            used, total = (_mib(device, f"fb_memory_usage/{name}") for name in ("used", "total"))
            name = "/".join((gpu.get("id", ""), *_ids(device)))
            found[MIG_MEMORY_USED] += [] if used is None else [Reading(used * _MIB, name)]
            found[MIG_MEMORY_USED_PERCENT] += _percent(used, total, name)
        busy = {_ids(process) for process in gpu.findall("processes/process_info")}
        in_use += len(busy & {_ids(device) for device in devices})
    found[MIG_DEVICES_IN_USE] = [in_use]
    return found


def is_active(found: Found) -> bool | None:
    """Whether a GPU worked; None if unknown."""
    values = [*found.get(GPU_UTILIZATION, []), *found.get(MIG_DEVICES_IN_USE, [])]
    return any(value > 0 for value in values) if values else None


def _percent(used: float | None, total: float | None, label: str) -> Iterator[float]:
    if used is not None and total:
        yield Reading(round(100 * used / total, 1), label)


def _mib(device: ET.Element, path: str) -> float | None:
    return number(device.findtext(path, "").replace("MiB", "").strip())


def _ids(element: ET.Element) -> tuple[str, ...]:
    return tuple(element.findtext(name, "") for name in ("gpu_instance_id", "compute_instance_id"))


_LCTL_SECONDS = 20
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
# Where Lustre 2.12 and later keep them, and older ones (lustre/llite/lproc_llite.c, ldebugfs).
_LLITE = ("/sys/kernel/debug/lustre/llite", "/proc/fs/lustre/llite")

Counters = dict[str, int]


def efa_counters() -> Counters:
    """Counters of every EFA device, by metric and device."""
    files = (file for device in efa_devices() for file in sorted(device.glob("ports/*/hw_counters/*")))
    found = {file: paths.read_number(file) for file in files if file.name in _EFA}
    return {f"{_EFA[file.name].name} {_device(file)}": value for file, value in found.items() if value is not None}


def lustre_counters() -> Counters:
    """Bytes read and written, by metric and mount."""
    found: Counters = {}
    for mount, text in _lustre_stats().items():
        for words in map(str.split, text.splitlines()):
            if len(words) > _SUM and words[0] in _LUSTRE:
                with suppress(ValueError):
                    found[f"{_LUSTRE[words[0]].name} {mount}"] = int(words[_SUM])
    return found


def _lustre_stats() -> dict[str, str]:
    """The statistics of each mount, from the files that `lctl` itself reads, or by `lctl` if they are elsewhere."""
    files = [file for place in _LLITE for file in sorted(paths.below(place).glob("*/stats"))]
    if files:
        return {f"llite.{file.parent.name}.stats": paths.read_text(file) for file in files}
    found: dict[str, str] = {}
    mount = ""
    outcome = run("lctl", "get_param", "llite.*.stats", timeout_seconds=_LCTL_SECONDS)
    for line in outcome.output.splitlines() if outcome.ok else ():
        if line.startswith("llite."):
            mount = line.partition("=")[0]
            found[mount] = ""
        elif mount:
            found[mount] += f"{line}\n"
    return found


def rates(before: Mapping[str, object], now: Counters, seconds: float) -> dict[Metric, list[float]]:
    """Increases per second. A new counter, or one that fell because its device was reset, has none."""
    found: dict[Metric, list[float]] = {metric: [] for metric in (*_EFA.values(), *_LUSTRE.values())}
    by_name = {metric.name: metric for metric in found}
    for key, value in now.items():
        earlier = before.get(key)
        if seconds > 0 and isinstance(earlier, int) and value >= earlier:
            name, _, label = key.partition(" ")
            found[by_name[name]].append(Reading(round((value - earlier) / seconds, 1), label))
    return found


def _device(file: Path) -> str:
    return f"{file.parts[-5]}/{file.parts[-3]}"
