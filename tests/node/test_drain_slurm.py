"""The end of a node of a real Slurm cluster: it is drained, and its jobs get SIGTERM after the user's command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.actions import slurm as orchestrator
from cdk_gpu_clusters.node.gpunode.drain import Ending, drain
from services.slurm import Slurm
from watched_node import WatchedNode


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    (tmp_path / "slurm").mkdir()
    with Slurm(tmp_path / "slurm", "gpu-1", "gpu-2") as slurm:
        yield slurm


def test_jobs_of_the_node_end_after_the_users_command_and_others_run_on(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = WatchedNode(tmp_path / "node")
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(watched.root))
    mine, other = slurm.run_job("gpu-1"), slurm.run_job("gpu-2")
    show = f"{slurm.programs}/scontrol --oneliner show job {mine.id} >{watched.root}/saved"
    command = watched.write("etc/gpu-cluster/on-drain", f"#!/bin/sh\nSLURM_CONF={slurm.configuration} {show}\n")
    command.chmod(0o755)
    node = watched.node(
        orchestrator="slurm",
        node_name="gpu-1",
        slurm_bin=str(slurm.programs),
        slurm_conf=str(slurm.configuration),
    )
    drain(node, watched.told, Ending("spot-interruption", seconds_left=120), orchestrator.Slurm(node))
    assert "JobState=RUNNING" in (watched.root / "saved").read_text()
    slurm.eventually(lambda: slurm.job_state(mine.id) == "FAILED")
    assert not mine.output.read_text().startswith("done")
    assert slurm.job_state(other.id) == "RUNNING"
    assert slurm.node("gpu-1").reason.startswith("gpunode: spot-interruption")
    assert slurm.node("gpu-2").state == "MIXED"
    other.end.touch()
    slurm.eventually(lambda: slurm.job_state(other.id) == "COMPLETED")
    assert watched.told.of("jobs") == [("ok", "scancel: SIGTERM to the jobs of gpu-1")]
