"""Pins a process to the processors and the memory next to its GPU."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..command import NOT_FOUND, run
from ..pci import as_cpu_list, local_cpus, numa_node, pci_device
from .local_rank import Gpu

_TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class Pinned:
    """How a process is pinned.

    Attributes:
        words: To what, or why not, for people.
        is_whole: Whether processors and memory both are.
        prefix: What to put before its command, for the memory.
    """

    words: str
    is_whole: bool
    prefix: tuple[str, ...] = ()


def pin_to(gpu: Gpu) -> Pinned:
    """Pin this process, and what it becomes and starts, to the NUMA node of a GPU.

    All processors of the node, not a share of them: the loaders of a rank need room, and neighbours may be idle.
    Memory comes from the node while it has some, and then from others.

    Args:
        gpu: The GPU.
    """
    device = pci_device(gpu.address)
    here, allowed = local_cpus(device), os.sched_getaffinity(0)
    cpus = here & allowed
    if not cpus:
        reason = (
            f"only {as_cpu_list(allowed)} may be used" if here else "the kernel tells no processors near it"
        )
        return Pinned(f"GPU{gpu.index}: not pinned: {reason}", is_whole=False)
    os.sched_setaffinity(0, cpus)
    words = f"GPU{gpu.index}: processors {as_cpu_list(cpus)}"
    node = numa_node(device)
    if node < 0:
        return Pinned(f"{words}; memory not pinned: the kernel tells no NUMA node", is_whole=False)
    prefix = ("numactl", f"--preferred={node}")
    # A container may forbid it (set_mempolicy(2) needs CAP_SYS_NICE under Docker's default profile).
    tried = run(*prefix, "true", timeout_seconds=_TIMEOUT_SECONDS)
    if not tried.ok:
        why = "numactl is not installed" if tried.status == NOT_FOUND else f"numactl: {tried.words}"
        return Pinned(f"{words}; memory not pinned: {why}", is_whole=False)
    return Pinned(f"{words}, memory of NUMA node {node}", is_whole=True, prefix=prefix)
