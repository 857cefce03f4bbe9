"""The script of `gpu-clusters run --on slurm`, submitted to a real Slurm with two nodes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from services.slurm import Slurm


def address() -> str:
    """The address of this machine by which other nodes would reach the first one; its name where it has no route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as chosen:
        try:
            chosen.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "gpu-1"
        return str(chosen.getsockname()[0])


def test_both_nodes_run_the_command_with_their_rank_and_one_master(tmp_path: Path) -> None:
    folder = tmp_path / "slurm"
    folder.mkdir()
    show = (
        'echo "rank $PET_NODE_RANK of $PET_NNODES, $PET_NPROC_PER_NODE each, at $PET_MASTER_ADDR, greeting $GREETING"'
    )
    with Slurm(folder, "gpu-1", "gpu-2") as slurm:
        environment = {**os.environ, **slurm.environment, "PATH": f"{slurm.programs}:{os.environ['PATH']}"}
        options = ("--on", "slurm", "--nodes", "2", "--processes", "8", "--env", "GREETING=hello  world")
        run = [sys.executable, "-m", "cdk_gpu_clusters_stacks.cli.main", "run", "train", *options]
        done = subprocess.run(
            [*run, "--", "sh", "-c", show], env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        job = done.stdout.split()[-1]
        slurm.eventually(lambda: slurm.job_state(job) == "COMPLETED")
        (log,) = folder.glob(f"gpu-*-{job}.log")
        lines = sorted(line.partition(": ")[2] for line in log.read_text().splitlines() if "rank" in line)
    assert lines == [f"rank {rank} of 2, 8 each, at {address()}, greeting hello  world" for rank in (0, 1)]
