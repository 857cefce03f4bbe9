"""NUMA: which GPUs and EFA devices are near which processors. It is told, for pinning; no source says what is right."""

from __future__ import annotations

from .. import efa, paths
from ..node import Node
from ..pci import numa_node, pci_device
from .check import Result, Severity
from .gpu_rows import gpu_rows

_NAME = "numa"


def check_numa(node: Node) -> list[Result]:
    """Map devices to NUMA nodes; on a system with several, a device of none cannot be pinned."""
    devices = {device.name: numa_node(device / "device") for device in efa.devices()}
    if node.settings.text("accelerator") == "gpu":
        devices = {**_gpus(), **devices}
    online = paths.read_text(paths.below("/sys/devices/system/node/online")).strip() or "0"
    words = "; ".join(
        f"node {place}: {' '.join(name for name, found in devices.items() if found == place)}"
        for place in sorted(set(devices.values()))
    )
    lost = [name for name, place in devices.items() if place < 0]
    if lost and online != "0":
        expected = f"a NUMA node of {online} for every device"
        return [
            Result(_NAME, Severity.MONITOR, f"no NUMA node: {' '.join(lost)}", expected, "do not pin by it")
        ]
    return [Result(_NAME, Severity.OK, words or "no devices")]


def _gpus() -> dict[str, int]:
    return {
        f"GPU{row['index']}": numa_node(pci_device(row["pci.bus_id"])) for row in gpu_rows(["pci.bus_id"])
    }
