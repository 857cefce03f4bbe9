"""EFA, Neuron and PCI devices of this node, as the kernel and their tools list them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import paths
from .command import Outcome, run

_TIMEOUT_SECONDS = 60
# The path of the EFA installer. Services do not have that folder on their PATH.
_FI_INFO = "/opt/amazon/efa/bin/fi_info"

# Amazon, and its EFA devices 0xefa0 to 0xefa3 (Linux kernel, drivers/infiniband/hw/efa/efa_main.c). Not by their names:
# rdma-core has several rules for them, such as `rdmap16s27`, `rdmaP1p2s0`, `rdmao4` and `efa_0`, and the NVLink
# controllers of P6-B200 beside them are `ibp*`.
_VENDOR, _DEVICE = "0x1d0f", "0xefa"


def efa_devices() -> list[Path]:
    """The EFA devices in sysfs, in the order of their names."""
    return sorted(device for device in paths.below("/sys/class/infiniband").glob("*") if _is_efa(device))


def _is_efa(device: Path) -> bool:
    vendor, kind = (paths.read_text(device / "device" / name).strip() for name in ("vendor", "device"))
    return vendor == _VENDOR and kind.startswith(_DEVICE)


def efa_provider() -> Outcome:
    """List the devices of libfabric's provider `efa`; NOT_FOUND if libfabric's tools are not installed."""
    installed = paths.below(_FI_INFO)
    program = str(installed) if installed.exists() else "fi_info"
    return run(program, "-p", "efa", timeout_seconds=_TIMEOUT_SECONDS)


def neuron_devices() -> tuple[list[dict[str, Any]] | None, Outcome]:
    """The devices that `neuron-ls` lists, None if it fails; and the outcome of the program."""
    outcome = run("neuron-ls", "--json-output", timeout_seconds=_TIMEOUT_SECONDS)
    try:
        listed = json.loads(outcome.output) if outcome.ok else None
    except (ValueError, RecursionError):
        listed = None
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else None
    return rows, outcome


def neuron_counters(name: str) -> dict[str, int]:
    """A counter of every Neuron device that has it, by the device's name.

    Args:
        name: Name of the file, such as `mem_ecc_uncorrected`. It is searched for, since driver 2.31 moved some files.
    """
    found: dict[str, int] = {}
    folder = paths.below("/sys/devices/virtual/neuron_device")
    for device in sorted(folder.glob("neuron*")):
        values = [paths.read_number(file) for file in device.rglob(name)]
        counted = [value for value in values if value is not None]
        if counted:
            found[device.name] = max(counted)
    return found


def pci_device(address: str) -> Path:
    """The folder of a device in sysfs.

    Args:
        address: As `nvidia-smi` prints it, `00000000:1B:00.0`, or the kernel, `0000:1b:00.0`.
    """
    domain, _, rest = address.lower().partition(":")
    return paths.below(f"/sys/bus/pci/devices/{domain[-4:]}:{rest}")


def numa_node(device: Path) -> int:
    """The NUMA node of a device; -1 if the kernel has none."""
    found = paths.read_number(device / "numa_node")
    return -1 if found is None else found


def local_cpus(device: Path) -> set[int]:
    """The processors next to a device; empty if the kernel lists none."""
    return read_cpu_list(paths.read_text(device / "local_cpulist"))


def read_cpu_list(text: str) -> set[int]:
    """Processors from a list such as `0-47,96-143` (cpuset(7), "List format"); empty for anything else."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            return set()
        found.update(range(int(first), int(last or first) + 1))
    return found


def as_ranges(numbers: set[int]) -> str:
    """Processors, or GPUs, as such a list.

    Example:
        >>> as_ranges({0, 1, 2, 3, 8})
        '0-3,8'
    """
    starts = [number for number in sorted(numbers) if number - 1 not in numbers]
    ends = [number for number in sorted(numbers) if number + 1 not in numbers]
    return ",".join(str(one) if one == two else f"{one}-{two}" for one, two in zip(starts, ends))
