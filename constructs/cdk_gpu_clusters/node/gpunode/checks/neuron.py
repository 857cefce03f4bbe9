"""Neuron devices: as many as the type has, without memory errors.

AWS Neuron documentation, Neuron Runtime troubleshooting, "Hardware errors": an uncorrectable error of SRAM or HBM asks
for another instance, a repairable one for a reboot. Too few devices: as for GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import neuron
from ..node import Node
from .check import Result, Severity, Untold
from .gpu_rows import or_well

_NAME = "neuron"
_COUNTERS = {
    "sram_ecc_uncorrected": (Severity.REPLACE, "uncorrectable errors of SRAM", "replace the node"),
    "mem_ecc_uncorrected": (Severity.REPLACE, "uncorrectable errors of HBM", "replace the node"),
    "mem_ecc_repairable_uncorrected": (Severity.REBOOT, "repairable errors of HBM", "reboot the node"),
}


def check_neuron(node: Node) -> list[Result]:
    """Count the devices that the driver lists."""
    wanted = node.settings.number("accelerator_count")
    listed, outcome = neuron.list_devices()
    if listed is None:
        raise Untold(f"neuron-ls: {outcome.words or 'lists nothing'}")
    found, expected = f"{len(listed)} Neuron devices", f"{wanted} Neuron devices"
    if len(listed) < wanted:
        return [Result(_NAME, Severity.REPLACE, found, expected, "replace the node")]
    return [Result(_NAME, Severity.OK, found, expected)]


def check_neuron_memory(_: Node) -> list[Result]:
    """Look at the counters of memory errors of every device."""
    counted = {name: neuron.counters(name) for name in _COUNTERS}
    if not any(counted.values()):
        raise Untold("the driver counts no memory errors below /sys/devices/virtual/neuron_device")
    devices = max(len(values) for values in counted.values())
    return or_well("neuron-memory", _errors(counted), f"{devices} Neuron devices without memory errors")


def _errors(counted: dict[str, dict[str, int]]) -> Iterator[Result]:
    for name, (severity, what, fix) in _COUNTERS.items():
        for device, count in counted[name].items():
            if count:
                yield Result("neuron-memory", severity, f"{device}: {count} {what}", "none", fix)
