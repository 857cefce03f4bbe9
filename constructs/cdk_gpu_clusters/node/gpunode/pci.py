"""PCI devices as the kernel shows them: their NUMA node, and the processors next to them."""

from __future__ import annotations

from pathlib import Path

from . import paths


def pci_device(address: str) -> Path:
    """The folder of a device in sysfs.

    Args:
        address: As `nvidia-smi` writes it, `00000000:1B:00.0`, or the kernel, `0000:1b:00.0`.
    """
    domain, _, rest = address.lower().partition(":")
    return paths.below(f"/sys/bus/pci/devices/{domain[-4:]}:{rest}")


def numa_node(device: Path) -> int:
    """The NUMA node of a device; -1 where the kernel knows none."""
    try:
        return int(paths.read_text(device / "numa_node").strip())
    except ValueError:
        return -1


def local_cpus(device: Path) -> set[int]:
    """The processors next to a device; empty where the kernel tells none."""
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


def as_cpu_list(cpus: set[int]) -> str:
    """Processors as such a list.

    Example:
        >>> as_cpu_list({0, 1, 2, 3, 8})
        '0-3,8'
    """
    numbers = sorted(cpus)
    starts = [number for number in numbers if number - 1 not in cpus]
    ends = [number for number in numbers if number + 1 not in cpus]
    return ",".join(str(one) if one == two else f"{one}-{two}" for one, two in zip(starts, ends))
