"""`gpunode resume` in the batch script of a Slurm job: it stays with the job, and starts it again where that helps.

- At its time limit, and when a node of it has failed, the job goes back into the queue, up to a number of attempts.
  SIGUSR1 announces the limit: sbatch(1), `--signal=B:USR1@300`.
- Nodes that failed in two attempts are excluded (`attempts`).
- An application that fails on healthy nodes fails the job: another attempt would fail as well.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from ..command import NOT_EXECUTABLE, NOT_FOUND
from ..node import read_settings
from ..quoting import one_line
from .attempts import Attempts, exclude, failed_nodes
from .commands import SlurmCommands

# SageMaker HyperPod replaces the failed node, and starts the step again itself (its guide, "Auto-resume").
_HYPERPOD = Path("/opt/sagemaker_cluster")
# None, or SLURM_BATCH_SCRIPT, 0xfffffffb, with and without a sign (SchedMD/slurm, slurm/slurm.h).
_BATCH_STEPS = (None, "-5", "4294967291")
_CANCELLED = 128 + signal.SIGTERM


def is_batch_script(environment: Mapping[str, str]) -> bool:
    """Whether this process is the batch script of a Slurm job, not a step or a shell of salloc.

    Batch scripts and steps have SLURM_TASK_PID (sbatch(1) and srun(1), "OUTPUT ENVIRONMENT VARIABLES"). Only steps have
    SLURM_STEP_ID up to Slurm 24.11; from 26.05 on, batch scripts have the number of their own step (seen with 24.11.5
    and 26.05.5, tests/slurm).
    """
    names = ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_TASK_PID")
    return all(environment.get(name) for name in names) and environment.get("SLURM_STEP_ID") in _BATCH_STEPS


def with_auto_resume(command: Sequence[str], *, is_hyperpod: bool | None = None) -> list[str]:
    """The command with `--auto-resume=1` for srun on SageMaker HyperPod, whose srun alone knows the option.

    Example:
        >>> with_auto_resume(["srun", "train"], is_hyperpod=True)
        ['srun', '--auto-resume=1', 'train']
    """
    on_hyperpod = _HYPERPOD.is_dir() if is_hyperpod is None else is_hyperpod
    if on_hyperpod and Path(command[0]).name == "srun" and not any(one.startswith("--auto-resume") for one in command):
        return [command[0], "--auto-resume=1", *command[1:]]
    return list(command)


class BatchScript:
    """One attempt of a job.

    Args:
        folder: Where the job leaves its checkpoints.
        most_attempts: How often it may start.
        environment: Variables of the job.
    """

    def __init__(self, folder: Path, most_attempts: int, environment: Mapping[str, str]) -> None:
        self._job = environment["SLURM_JOB_ID"]
        self._slurm = SlurmCommands(read_settings())
        self._nodes = self._slurm.names(environment["SLURM_JOB_NODELIST"])
        self._attempts, self._most = Attempts(folder, self._job), most_attempts
        self._child: subprocess.Popen[bytes] | None = None
        self._is_late = self._is_cancelled = self._is_srun = False

    def run(self, command: Sequence[str]) -> int:
        """Run the job, and return the exit status of the batch script."""
        self._close_last()
        avoided = self._attempts.failed_often()
        if len(self._attempts.rows) >= self._most:
            _say(f"{len(self._attempts.rows)} attempts were made, and {self._most} are allowed")
            return 1
        if set(avoided) & set(self._nodes):
            return self._requeue(f"{', '.join(avoided)} failed twice")
        self._attempts.begin(self._nodes)
        _say(f"attempt {len(self._attempts.rows)} of {self._most}, on {len(self._nodes)} nodes")
        status = self._wait_for(command)
        if self._is_late:
            self._attempts.end("time limit")
            return self._requeue("the time limit is near") if self._may_start_again() else status or _CANCELLED
        if status == 0:
            self._attempts.end("ok")
            return 0
        failed = self._failed()
        if self._is_cancelled:
            # By its user, or by Slurm, which has put it back into the queue if a node failed.
            if failed:
                self._attempts.end("node failed", failed)
                self._avoid()
            return status
        self._attempts.end("node failed" if failed else f"status {status}", failed)
        if failed and self._may_start_again():
            return self._requeue(f"{', '.join(sorted(failed))} failed")
        return status

    def _close_last(self) -> None:
        """Record how the attempt before this one ended, if its node was gone too soon to do so."""
        if self._attempts.is_open:
            self._attempts.end("cut short", failed_nodes(self._slurm, self._attempts.rows[-1], self._fields()))

    def _wait_for(self, command: Sequence[str]) -> int:
        self._is_srun = Path(command[0]).name == "srun"
        for number in (signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, self._pass_on)
        try:
            self._child = subprocess.Popen(list(command))
        except OSError as fault:
            _say(f"{command[0]}: {fault.strerror}")
            return NOT_FOUND if isinstance(fault, FileNotFoundError) else NOT_EXECUTABLE
        status = self._child.wait()
        # A shell's number for a signal.
        return status if status >= 0 else 128 - status

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        """Ask the job to save its state and to end.

        srun takes SIGTERM as an order to kill its tasks (SchedMD/slurm, src/srun/srun_job.c). scancel sends it to them
        instead. When Slurm ends a job, it has sent it to all of them itself.
        """
        self._is_late |= number == signal.SIGUSR1
        self._is_cancelled |= number == signal.SIGTERM
        if self._child is None or self._child.poll() is not None:
            return
        if not self._is_srun:
            self._child.terminate()
        elif number == signal.SIGUSR1:
            self._slurm.run("scancel", "--signal=TERM", self._job)

    def _failed(self) -> set[str]:
        return failed_nodes(self._slurm, self._attempts.rows[-1], self._fields()) if self._attempts.rows else set()

    def _fields(self) -> dict[str, str]:
        return self._slurm.job(self._job)

    def _may_start_again(self) -> bool:
        return len(self._attempts.rows) < self._most

    def _requeue(self, why: str) -> int:
        """Put the job back into the queue, without the nodes to avoid. Slurm ends this process then."""
        _say(f"back into the queue: {why}")
        # The new list must be in place before SIGKILL, KillWait after SIGTERM (slurm.conf(5): 30 s).
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        requeued = self._slurm.run("scontrol", "requeue", self._job)
        if not requeued.ok:
            _say(f"scontrol requeue: {requeued.words}")
            return 1
        self._avoid()
        return 0

    def _avoid(self) -> None:
        nodes = self._attempts.failed_often()
        if nodes and not exclude(self._slurm, self._job, nodes):
            _say(f"{', '.join(nodes)} cannot be excluded; the next attempt tries again")


def _say(words: str) -> None:
    sys.stderr.write(f"gpunode resume: {one_line(words)}\n")
    sys.stderr.flush()
