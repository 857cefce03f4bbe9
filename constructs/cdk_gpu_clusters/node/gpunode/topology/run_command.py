"""The command `gpunode run`: starts a job, with its NCCL settings, pinned, and known to the drain of the node."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import jobs, paths
from .local_rank import NoGpuError, gpu_of, local_rank
from .pin import pin_to

# sysexits.h, and what shells give for a program that is not there or cannot be run.
_MISUSE, _NOT_EXECUTABLE, _NOT_FOUND = 64, 126, 127
_JOB = "GPUNODE_JOB"
# torchrun runs this instead of its own interpreter for every rank (torch/distributed/run.py).
_PYTHON = "PYTHON_EXEC"
_USERS_PYTHON = "GPUNODE_PYTHON"
_PINNED_PYTHON = "/usr/local/libexec/gpu-cluster/pinned-python"
_TORCH = ("torchrun", "accelerate")
_TORCH_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_OTHER_LAUNCHERS = ("mpirun", "mpiexec", "srun", "deepspeed")

_TEXT = """\
Run a job: with the variables of /etc/nccl.conf that are not set, told of to the drain of the node (which sends it
SIGTERM), and with --pin each rank on the processors and the memory next to its GPU.

  gpunode run --pin -- torchrun --nproc-per-node 8 train.py       every rank that torchrun starts
  mpirun ... gpunode run --pin -- ./train                         the rank that mpirun started
  srun ... gpunode run --pin -- python train.py                   the task that srun started

The local rank is LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID or SLURM_LOCALID; its GPU the one of that
number in CUDA_VISIBLE_DEVICES, or on the node. What cannot be pinned runs all the same, and says so.

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
    command.add_argument("--verbose", action="store_true", help="say to what")
    command.add_argument("--python", action="store_true", help=argparse.SUPPRESS)
    command.add_argument("job", nargs=argparse.REMAINDER, metavar="COMMAND")
    command.set_defaults(run=run_job)


def run_job(given: argparse.Namespace) -> int:
    """Become the job; comes back only if that fails.

    Returns:
        Exit status.
    """
    command = given.job[1:] if given.job[:1] == ["--"] else list(given.job)
    if given.python:
        command.insert(0, _interpreter(os.getppid()))
    if not command:
        return _fail("no command: gpunode run [--pin] -- COMMAND ...", _MISUSE)
    program = Path(command[0]).name
    if given.pin and program in _OTHER_LAUNCHERS:
        return _fail(f"{program} starts the ranks: {program} ... gpunode run --pin -- PROGRAM ...", _MISUSE)
    set_variables()
    if given.pin:
        command = [*_pin(command, verbose=given.verbose), *command]
    # Once for all its ranks: they hear of its end from it.
    if _JOB not in os.environ and jobs.register():
        os.environ[_JOB] = str(os.getpid())
    return _become(command)


def set_variables() -> None:
    """Take the variables of the node that the user has not set."""
    for line in paths.read_text(paths.below("/etc/nccl.conf")).splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            os.environ.setdefault(name.strip(), value.strip())


def _pin(command: Sequence[str], *, verbose: bool) -> Sequence[str]:
    """Pin this process if it is a rank, or have torchrun pin those that it starts."""
    rank = local_rank(os.environ)
    if rank is None or _starts_ranks(command):
        return _pin_later()
    try:
        pinned = pin_to(gpu_of(rank, os.environ))
    except (NoGpuError, OSError) as reason:
        _tell(f"local rank {rank}: not pinned: {reason}")
        return ()
    if verbose or not pinned.is_whole:
        _tell(f"local rank {rank}: {pinned.words}")
    return pinned.prefix


def _pin_later() -> Sequence[str]:
    wrapper = paths.below(_PINNED_PYTHON)
    if not os.access(wrapper, os.X_OK):
        _tell(f"ranks that torchrun starts are not pinned: there is no {wrapper}")
    elif os.environ.get(_PYTHON) != str(wrapper):
        if _PYTHON in os.environ:
            os.environ[_USERS_PYTHON] = os.environ[_PYTHON]
        os.environ[_PYTHON] = str(wrapper)
    return ()


def _starts_ranks(command: Sequence[str]) -> bool:
    modules = [word for flag, word in zip(command, command[1:]) if flag == "-m"]
    return Path(command[0]).name in _TORCH or modules[:1] in ([name] for name in _TORCH_MODULES)


def _interpreter(launcher: int) -> str:
    """The interpreter that torchrun would have taken: its own, as its command line has it.

    That is how Python finds its virtual environment too: /proc/PID/exe would be the interpreter outside.
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
        return _fail(f"not found: {command[0]}", _NOT_FOUND)
    except OSError as fault:
        return _fail(f"{command[0]}: {fault.strerror}", _NOT_EXECUTABLE)


def _tell(words: str) -> None:
    sys.stderr.write(f"gpunode run: {words}\n")
    sys.stderr.flush()


def _fail(words: str, status: int) -> int:
    _tell(words)
    return status
