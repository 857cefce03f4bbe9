"""Which GPU a process of a job is for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .. import nvidia_smi
from ..command import run

# The rank on the node, as torchrun, Open MPI, Intel MPI and Slurm tell it, and how many there are. torchrun first:
# below srun, its workers see both, and Slurm's is that of the launcher.
_RANKS = {
    "LOCAL_RANK": "",
    "OMPI_COMM_WORLD_LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALRANKID": "MPI_LOCALNRANKS",
    "SLURM_LOCALID": "SLURM_STEP_TASKS_PER_NODE",
}
_TIMEOUT_SECONDS = 60


class NoGpuError(Exception):
    """It cannot be told which GPU a process is for; the text says why."""


@dataclass(frozen=True)
class Gpu:
    """A GPU.

    Attributes:
        index: Its index.
        address: Its PCI address.
    """

    index: str
    address: str


def local_rank(environment: Mapping[str, str]) -> int | None:
    """The rank of a process on its node; None for a process that is no rank of a job.

    The only process that MPI or Slurm started on a node is none either: it starts the ranks, as a script that calls
    torchrun does.

    Args:
        environment: Variables of the process.

    Example:
        >>> local_rank({"SLURM_LOCALID": "3", "SLURM_STEP_TASKS_PER_NODE": "8(x2)"})
        3
    """
    for name, size in _RANKS.items():
        if environment.get(name, "").isdecimal():
            alone = environment.get(size, "").partition("(")[0] == "1"
            return None if alone else int(environment[name])
    return None


def gpu_of(rank: int, environment: Mapping[str, str]) -> Gpu:
    """The GPU of a rank: the one of its number among those that CUDA_VISIBLE_DEVICES shows, or the only one.

    Args:
        rank: Rank on the node.
        environment: Variables of the process.

    Raises:
        NoGpuError: If there is none.
    """
    answer = nvidia_smi.query(["uuid", "pci.bus_id"], timeout_seconds=_TIMEOUT_SECONDS)
    if not answer.rows:
        raise NoGpuError(f"nvidia-smi: {answer.outcome.words or 'lists no GPU'}")
    visible = [
        word.strip() for word in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()
    ]
    names = visible or [row["index"] for row in answer.rows]
    # Where the scheduler shows each process a GPU of its own, the first is right for every rank.
    place = 0 if len(visible) == 1 else rank
    if place >= len(names):
        raise NoGpuError(f"local rank {rank}, but only {len(names)} GPUs are visible")
    name = _parent(names[place]) if names[place].startswith("MIG-") else names[place]
    for row in answer.rows:
        # A UUID may be shortened, as long as it is unambiguous.
        if name == row["index"] or (name.startswith("GPU-") and row["uuid"].startswith(name)):
            return Gpu(row["index"], row["pci.bus_id"])
    raise NoGpuError(f"no GPU answers to {names[place]}")


def _parent(device: str) -> str:
    """The index of the GPU that a MIG device is a part of; the device itself where it is not listed."""
    listing = run("nvidia-smi", "-L", timeout_seconds=_TIMEOUT_SECONDS).output
    index = device
    for line in listing.splitlines():
        gpu = re.match(r"GPU (\d+):", line)
        index = gpu[1] if gpu else index
        if f"(UUID: {device})" in line:
            return index
    return device
