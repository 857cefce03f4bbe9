"""The newest complete checkpoint in a folder, and the command `gpunode resume`, which starts a job from it.

A checkpoint that a node was still writing when it failed must not be taken. Each framework marks a complete one:

- PyTorch, `torch.distributed.checkpoint`: the folder has `.metadata`, which the coordinator writes last
  (pytorch/pytorch, torch/distributed/checkpoint/filesystem.py, `finish`).
- Hugging Face Trainer: `checkpoint-500` has `trainer_state.json`, written after model, optimizer and scheduler
  (huggingface/transformers, src/transformers/trainer.py, `_save_checkpoint`).
- DeepSpeed: the file `latest` names the folder (deepspeedai/DeepSpeed, deepspeed/runtime/engine.py, `save_checkpoint`).
- Megatron-LM: `latest_checkpointed_iteration.txt` has the number of `iter_0000500`
  (NVIDIA/Megatron-LM, megatron/training/checkpointing.py, `get_checkpoint_tracker_filename`).
- Any other: a link or a file `latest` beside it names it, or it is a folder with a file `.complete`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import paths
from .command import NOT_EXECUTABLE, NOT_FOUND
from .slurm_jobs.resume import BatchScript, is_batch_script, with_auto_resume

#: Variables of a job: where it leaves checkpoints, and from which it goes on, which is unset at the first start.
DIRECTORY, RESUME_FROM = "CHECKPOINT_DIR", "RESUME_FROM_CHECKPOINT"
#: How often a Slurm job starts before it is given up.
MOST_ATTEMPTS = 20
_MARKS = (".metadata", "trainer_state.json", ".complete")
_MEGATRON = "latest_checkpointed_iteration.txt"
_LONGEST_NAME = 255

_TEXT = """\
Run a job from its newest complete checkpoint: its path is in RESUME_FROM_CHECKPOINT, which is unset if there is none.

  gpunode resume --directory /fsx/llama -- torchrun train.py

Checkpoints of torch.distributed.checkpoint, Hugging Face Trainer, DeepSpeed and Megatron-LM are known; others count
if they have a file `.complete`, or if a link `latest` beside them leads to them.

In the batch script of a Slurm job it stays with the job, and counts its attempts in the same folder. The job goes back
into the queue when one of its nodes has failed, and before its time limit, with #SBATCH --signal=B:USR1@300. A node
that failed in two attempts is excluded from the next ones.

Exit status: that of the job; 64 a wrong command line, 126 and 127 the job cannot be started.
"""


def add_resume(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of `gpunode`."""
    command = commands.add_parser(
        "resume",
        help="run a job from its newest complete checkpoint",
        usage="gpunode resume [--directory DIRECTORY] [--attempts NUMBER] -- COMMAND ...",
        description=_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--directory", default=os.environ.get(DIRECTORY, ""), help=f"{DIRECTORY} if left out")
    command.add_argument(
        "--attempts", type=int, default=MOST_ATTEMPTS, help=f"most starts of a Slurm job, {MOST_ATTEMPTS} if left out"
    )
    command.add_argument("job", nargs=argparse.REMAINDER, metavar="COMMAND")
    command.set_defaults(run=resume)


def resume(given: argparse.Namespace) -> int:
    """Replace this process by the job, except in the batch script of a Slurm job; returns an exit status."""
    command = given.job[1:] if given.job[:1] == ["--"] else list(given.job)
    if not command or not given.directory:
        missing = "no command" if given.directory else f"no folder: set {DIRECTORY}, or give --directory"
        sys.stderr.write(f"gpunode resume: {missing}\n")
        return os.EX_USAGE
    os.environ[DIRECTORY] = given.directory
    newest = newest_checkpoint(Path(given.directory))
    if newest is None:
        os.environ.pop(RESUME_FROM, None)
    else:
        os.environ[RESUME_FROM] = str(newest)
    sys.stderr.write(f"gpunode resume: {newest or 'no complete checkpoint'}\n")
    sys.stderr.flush()
    command = with_auto_resume(command)
    if is_batch_script(os.environ):
        return BatchScript(Path(given.directory), given.attempts, os.environ).run(command)
    try:
        os.execvp(command[0], command)
    except OSError as fault:
        sys.stderr.write(f"gpunode resume: {command[0]}: {fault.strerror}\n")
        return NOT_FOUND if isinstance(fault, FileNotFoundError) else NOT_EXECUTABLE


def newest_checkpoint(directory: Path) -> Path | None:
    """The newest complete checkpoint directly below a folder; None if there is none.

    The newest is the one that was completed last, so that checkpoints of several runs in one folder do not matter.

    Args:
        directory: The folder.
    """
    try:
        found = list(_complete(directory))
    except OSError:
        return None
    return max(found)[1] if found else None


def _complete(directory: Path) -> Iterator[tuple[float, Path]]:
    """The complete ones, and when they were completed."""
    named = {_named(directory / "latest"), _iteration(directory)} - {""}
    for entry in directory.iterdir():
        times = [_modified(entry / mark) for mark in _MARKS]
        if entry.name in named:
            times.append(_modified(entry))
        completed = max((one for one in times if one is not None), default=None)
        if completed is not None and entry.name != "latest":
            yield completed, entry


def _named(latest: Path) -> str:
    """What `latest` names: a link leads to it, a file has its name."""
    if latest.is_symlink():
        return latest.readlink().name
    return paths.read_regular(latest, _LONGEST_NAME).strip()


def _iteration(directory: Path) -> str:
    number = paths.read_regular(directory / _MEGATRON, _LONGEST_NAME).strip()
    return f"iter_{int(number):07}" if number.isdecimal() else number


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
