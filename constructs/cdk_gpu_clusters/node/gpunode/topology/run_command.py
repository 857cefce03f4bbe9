"""The command `gpunode run`: starts a job with NCCL settings, pinned next to its GPU, and registered for the drain."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import jobs, nvidia_smi, paths
from ..command import NOT_EXECUTABLE, NOT_FOUND, run
from ..devices import as_ranges, local_cpus, numa_node, pci_device

_JOB = "GPUNODE_JOB"
# torchrun runs this instead of its own interpreter for every rank (torch/distributed/run.py).
_PYTHON = "PYTHON_EXEC"
_USERS_PYTHON = "GPUNODE_PYTHON"
_PINNED_PYTHON = "/usr/local/libexec/gpu-cluster/pinned-python"
_TORCH = ("torchrun", "accelerate")
_TORCH_MODULES = ("torch.distributed.run", "torch.distributed.launch")
#: Launchers that start ranks which `gpunode run --pin` cannot pin from outside.
OTHER_LAUNCHERS = ("mpirun", "mpiexec", "srun", "deepspeed")

_TEXT = """\
Run a job with the variables of /etc/nccl.conf that are not set, and register it, so that the drain of the node sends it
SIGTERM. With --pin, each rank runs on the processors and the memory next to its GPU.

  gpunode run --pin -- torchrun --nproc-per-node 8 train.py       every rank that torchrun starts
  mpirun ... gpunode run --pin -- ./train                         the rank that mpirun started
  srun ... gpunode run --pin -- python train.py                   the task that srun started

The local rank is LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID or SLURM_LOCALID; its GPU the one of that
number in CUDA_VISIBLE_DEVICES, or on the node. What cannot be pinned runs with a warning.

Exit status: that of the job; 64 a wrong command line, 126 and 127 the job cannot be started.
"""


def add_run(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of `gpunode`."""
    command = commands.add_parser(
        "run",
        help="run a job, pinned to its GPUs",
        usage="gpunode run [--pin] [--verbose] -- COMMAND ...",
        description=_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--pin", action="store_true", help="pin each rank next to its GPU")
    command.add_argument("--verbose", action="store_true", help="print the processors and memory of each rank")
    command.add_argument("--python", action="store_true", help=argparse.SUPPRESS)
    command.add_argument("job", nargs=argparse.REMAINDER, metavar="COMMAND")
    command.set_defaults(run=run_job)


def run_job(given: argparse.Namespace) -> int:
    """Replace this process by the job; returns an exit status only if that fails."""
    command = given.job[1:] if given.job[:1] == ["--"] else list(given.job)
    if given.python:
        command.insert(0, _interpreter(os.getppid()))
    if not command:
        return _fail("no command: gpunode run [--pin] -- COMMAND ...", os.EX_USAGE)
    program = Path(command[0]).name
    if given.pin and program in OTHER_LAUNCHERS:
        return _fail(f"{program} starts the ranks: {program} ... gpunode run --pin -- PROGRAM ...", os.EX_USAGE)
    set_variables()
    if given.pin:
        command = [*_pin(command, verbose=given.verbose), *command]
    # Once for all its ranks: the job forwards the signal to them.
    if _JOB not in os.environ and jobs.register():
        os.environ[_JOB] = str(os.getpid())
    return _become(command)


def set_variables() -> None:
    """Set the variables of the node that the user has not set."""
    for line in paths.read_text(paths.below("/etc/nccl.conf")).splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            os.environ.setdefault(name.strip(), value.strip())


def _pin(command: Sequence[str], *, verbose: bool) -> Sequence[str]:
    """Pin this process if it is a rank, or let torchrun pin those that it starts."""
    rank = local_rank(os.environ)
    if rank is None or _starts_ranks(command):
        return _pin_later()
    try:
        pinned = pin_to(gpu_of(rank, os.environ))
    except (NoGpuError, OSError) as reason:
        _warn(f"local rank {rank}: not pinned: {reason}")
        return ()
    if verbose or not pinned.is_complete:
        _warn(f"local rank {rank}: {pinned.words}")
    return pinned.prefix


def _pin_later() -> Sequence[str]:
    wrapper = paths.below(_PINNED_PYTHON)
    if not os.access(wrapper, os.X_OK):
        _warn(f"ranks that torchrun starts are not pinned: there is no {wrapper}")
    elif os.environ.get(_PYTHON) != str(wrapper):
        if _PYTHON in os.environ:
            os.environ[_USERS_PYTHON] = os.environ[_PYTHON]
        os.environ[_PYTHON] = str(wrapper)
    return ()


def _starts_ranks(command: Sequence[str]) -> bool:
    modules = [word for flag, word in zip(command, command[1:]) if flag == "-m"]
    return Path(command[0]).name in _TORCH or modules[:1] in ([name] for name in _TORCH_MODULES)


def _interpreter(launcher: int) -> str:
    """The interpreter that torchrun would use: its own, from its command line.

    Python finds its virtual environment by that, too: /proc/PID/exe would be the interpreter outside of it.
    """
    if os.environ.get(_USERS_PYTHON):
        return os.environ[_USERS_PYTHON]
    first = paths.read_text(Path(f"/proc/{launcher}/cmdline")).partition("\0")[0]
    if "/" in first:
        return str(Path(f"/proc/{launcher}/cwd").resolve() / first)
    return shutil.which(first) or first or "python3"


def _become(command: Sequence[str]) -> int:
    try:
        os.execvp(command[0], list(command))
    except FileNotFoundError:
        return _fail(f"not found: {command[0]}", NOT_FOUND)
    except OSError as fault:
        return _fail(f"{command[0]}: {fault.strerror}", NOT_EXECUTABLE)


def _warn(words: str) -> None:
    sys.stderr.write(f"gpunode run: {words}\n")
    sys.stderr.flush()


def _fail(words: str, status: int) -> int:
    _warn(words)
    return status


# Variables with the rank on the node, and the number of ranks, of torchrun, Open MPI, Intel MPI and Slurm. torchrun is
# first: under srun its workers have both, and Slurm's is that of the launcher.
_RANKS = {
    "LOCAL_RANK": "",
    "OMPI_COMM_WORLD_LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALRANKID": "MPI_LOCALNRANKS",
    "SLURM_LOCALID": "SLURM_STEP_TASKS_PER_NODE",
}
_TIMEOUT_SECONDS = 60


class NoGpuError(Exception):
    """The GPU of a process cannot be determined; the text is the reason."""


@dataclass(frozen=True)
class Gpu:
    """A GPU."""

    index: str
    address: str


def local_rank(environment: Mapping[str, str]) -> int | None:
    """The rank of a process on its node; None if it is not a rank of a job.

    The only process that MPI or Slurm starts on a node is not one: it starts the ranks itself, such as a script that
    calls torchrun.

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
    """The GPU of a rank: the visible GPU (CUDA_VISIBLE_DEVICES) of its number, or the only one.

    Raises:
        NoGpuError: If there is none.
    """
    answer = nvidia_smi.query(["uuid", "pci.bus_id"], timeout_seconds=_TIMEOUT_SECONDS)
    if not answer.rows:
        raise NoGpuError(f"nvidia-smi: {answer.outcome.words or 'lists no GPU'}")
    visible = [word.strip() for word in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    names = visible or [row["index"] for row in answer.rows]
    # If the scheduler assigns each process a GPU of its own, the first is right for every rank.
    index = 0 if len(visible) == 1 else rank
    if index >= len(names):
        raise NoGpuError(f"local rank {rank}, but only {len(names)} GPUs are visible")
    name = _parent(names[index]) if names[index].startswith("MIG-") else names[index]
    for row in answer.rows:
        # A UUID may be shortened, as long as it is unambiguous.
        if name == row["index"] or (name.startswith("GPU-") and row["uuid"].startswith(name)):
            return Gpu(row["index"], row["pci.bus_id"])
    raise NoGpuError(f"no GPU answers to {names[index]}")


def _parent(device: str) -> str:
    """The index of the GPU of a MIG device; the device itself if it is not listed."""
    listing = run("nvidia-smi", "-L", timeout_seconds=_TIMEOUT_SECONDS).output
    index = device
    for line in listing.splitlines():
        gpu = re.match(r"GPU (\d+):", line)
        index = gpu[1] if gpu else index
        if f"(UUID: {device})" in line:
            return index
    return device


_NUMACTL_SECONDS = 10


@dataclass(frozen=True)
class Pinned:
    """How a process is pinned.

    Attributes:
        words: Its processors and memory, or why it is not pinned.
        is_complete: Whether both processors and memory are pinned.
        prefix: Prefix of its command that pins the memory.
    """

    words: str
    is_complete: bool
    prefix: tuple[str, ...] = ()


def pin_to(gpu: Gpu) -> Pinned:
    """Pin this process and its children to the NUMA node of a GPU.

    It gets all processors of the node, not a share: the data loaders of a rank need them, and neighbours may be idle.
    Memory comes from the node while it has some, and then from others.
    """
    device = pci_device(gpu.address)
    here, allowed = local_cpus(device), os.sched_getaffinity(0)
    cpus = here & allowed
    if not cpus:
        reason = f"only {as_ranges(allowed)} may be used" if here else "the kernel lists no processors near it"
        return Pinned(f"GPU{gpu.index}: not pinned: {reason}", is_complete=False)
    os.sched_setaffinity(0, cpus)
    words = f"GPU{gpu.index}: processors {as_ranges(cpus)}"
    node = numa_node(device)
    if node < 0:
        return Pinned(f"{words}; memory not pinned: the kernel reports no NUMA node", is_complete=False)
    prefix = ("numactl", f"--preferred={node}")
    # A container may forbid it (set_mempolicy(2) needs CAP_SYS_NICE under Docker's default profile).
    tried = run(*prefix, "true", timeout_seconds=_NUMACTL_SECONDS)
    if not tried.ok:
        why = "numactl is not installed" if tried.status == NOT_FOUND else f"numactl: {tried.words}"
        return Pinned(f"{words}; memory not pinned: {why}", is_complete=False)
    return Pinned(f"{words}, memory of NUMA node {node}", is_complete=True, prefix=prefix)
