"""Activity, memory, power and temperature of the GPUs.

Under MIG the driver has no utilization: "On MIG-enabled GPUs, querying device utilization rates is not currently
supported" (NVML API reference, nvmlDeviceGetUtilizationRates). It tells the memory of each MIG device, and which of
them processes run on. NVIDIA's way to activity there are the profiling metrics of DCGM, such as
`DCGM_FI_PROF_GR_ENGINE_ACTIVE`, which this program does not need to be installed.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

from ..command import run
from ..nvidia_smi import number, query
from .names import (
    GPU_MEMORY_USED,
    GPU_MEMORY_USED_PERCENT,
    GPU_POWER_DRAW_WATTS,
    GPU_TEMPERATURE_CELSIUS,
    GPU_UTILIZATION,
    MIG_DEVICES_IN_USE,
    MIG_MEMORY_USED,
    MIG_MEMORY_USED_PERCENT,
    Metric,
)

Found = dict[Metric, list[float]]

_MIB = 1024 * 1024
_TIMEOUT_SECONDS = 30
_FIELDS = {
    "utilization.gpu": (GPU_UTILIZATION, 1),
    "memory.used": (GPU_MEMORY_USED, _MIB),
    "power.draw": (GPU_POWER_DRAW_WATTS, 1),
    "temperature.gpu": (GPU_TEMPERATURE_CELSIUS, 1),
}


def look_at_gpus() -> Found:
    """What is measured of whole GPUs; a GPU that has no such thing, or answers nothing, adds no value."""
    found: Found = {metric: [] for metric, _ in _FIELDS.values()}
    found[GPU_MEMORY_USED_PERCENT] = []
    for row in query([*_FIELDS, "memory.total"], timeout_seconds=_TIMEOUT_SECONDS).rows:
        cells = {field: number(cell) for field, cell in row.items()}
        for field, (metric, factor) in _FIELDS.items():
            value = cells.get(field)
            if value is not None:
                found[metric].append(value * factor)
        found[GPU_MEMORY_USED_PERCENT] += _percent(cells.get("memory.used"), cells.get("memory.total"))
    return found


def look_at_mig_devices() -> Found:
    """What is measured of MIG devices: their memory, and how many have processes."""
    found: Found = {MIG_MEMORY_USED: [], MIG_MEMORY_USED_PERCENT: [], MIG_DEVICES_IN_USE: []}
    outcome = run("nvidia-smi", "-q", "-x", timeout_seconds=_TIMEOUT_SECONDS)
    try:
        gpus = ET.fromstring(outcome.output).findall("gpu")  # noqa: S314 - the driver's own program
    except ET.ParseError:
        return found
    in_use = 0
    for gpu in gpus:
        devices = gpu.findall("mig_devices/mig_device")
        for device in devices:
            used, total = (_mib(device, f"fb_memory_usage/{name}") for name in ("used", "total"))
            found[MIG_MEMORY_USED] += [] if used is None else [used * _MIB]
            found[MIG_MEMORY_USED_PERCENT] += _percent(used, total)
        busy = {_ids(process) for process in gpu.findall("processes/process_info")}
        in_use += len(busy & {_ids(device) for device in devices})
    found[MIG_DEVICES_IN_USE] = [in_use]
    return found


def is_active(found: Found) -> bool | None:
    """Whether a GPU worked; None where nothing tells it.

    Args:
        found: What was measured.
    """
    told = [*found.get(GPU_UTILIZATION, []), *found.get(MIG_DEVICES_IN_USE, [])]
    return any(value > 0 for value in told) if told else None


def _percent(used: float | None, total: float | None) -> Iterator[float]:
    if used is not None and total:
        yield round(100 * used / total, 1)


def _mib(device: ET.Element, path: str) -> float | None:
    return number(device.findtext(path, "").replace("MiB", "").strip())


def _ids(element: ET.Element) -> tuple[str, ...]:
    return tuple(element.findtext(name, "") for name in ("gpu_instance_id", "compute_instance_id"))
