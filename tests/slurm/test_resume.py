"""A job of two nodes under `gpunode resume`: one of its nodes loses its power, twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial

import pytest

from cdk_gpu_clusters.node.slurm_settings import cluster_settings
from slurmbox.box import Box
from slurmbox.cluster import SHARED, Cluster

NODES = ("gpu-1", "gpu-2", "gpu-3")
CHECKPOINTS = f"{SHARED}/checkpoints"
# A training job of one step a start. Its first checkpoint is complete, the next is still being written when a node ends.
_SCRIPT = f"""#!/bin/bash
#SBATCH --nodes=2 --exclusive --requeue --open-mode=append --signal=B:USR1@300 --output={SHARED}/log
export CHECKPOINT_DIR={CHECKPOINTS}
exec gpunode resume -- srun --kill-on-bad-exit=1 bash -c '
echo "node $SLURMD_NODENAME start ${{SLURM_RESTART_COUNT:-0}} from ${{RESUME_FROM_CHECKPOINT:-nothing}}"
if [ $SLURM_PROCID = 0 ]; then
  step=${{SLURM_RESTART_COUNT:-0}}
  mkdir -p $CHECKPOINT_DIR/step-$step $CHECKPOINT_DIR/unfinished-$step
  touch $CHECKPOINT_DIR/step-$step/.complete
fi
until [ -e {SHARED}/finish ]; do sleep 0.2; done'
"""


@pytest.fixture(scope="module")
def cluster(box: Box) -> Iterator[Cluster]:
    # The node that fails is the cheapest: the scheduler takes it whenever it may.
    nodes = {name: f"CPUs=2 RealMemory=1000 Weight={10 if name != 'gpu-2' else 1}" for name in NODES}
    with Cluster(box, nodes, cluster_settings(), node_environment=("GPU_ORCHESTRATOR=pcs",)) as cluster:
        cluster.eventually(lambda: all(cluster.node(name)["State"] == "IDLE" for name in nodes))
        yield cluster


def test_it_goes_on_from_its_checkpoint_without_the_node_that_failed_twice(cluster: Cluster) -> None:
    cluster.box.path(CHECKPOINTS).mkdir(mode=0o777)
    cluster.box.path(CHECKPOINTS).chmod(0o777)
    job = cluster.submit(_SCRIPT)
    for start in range(2):
        cluster.eventually(partial(_has_complete, cluster, start))
        assert "gpu-2" in _names(cluster, cluster.job(job)["NodeList"])
        cluster.cut_power("gpu-2")
        cluster.eventually(lambda: "DOWN" in cluster.node("gpu-2")["State"])
        cluster.power_on("gpu-2")
        cluster.eventually(lambda: cluster.node("gpu-2")["State"].startswith(("IDLE", "MIXED", "ALLOCATED")))
    cluster.eventually(lambda: re.search(r"node gpu-3 start \d+ from .*step-1", _log(cluster)))
    cluster.box.write(f"{SHARED}/finish", "")
    cluster.eventually(lambda: cluster.job(job)["JobState"] == "COMPLETED")

    log = _log(cluster)
    assert re.search(r"start 0 from nothing", log)
    assert re.search(rf"start \d+ from {CHECKPOINTS}/step-0", log)
    assert "from " + CHECKPOINTS + "/unfinished" not in log
    assert sorted(_names(cluster, cluster.job(job)["NodeList"])) == ["gpu-1", "gpu-3"]
    assert cluster.job(job)["ExcNodeList"] == "gpu-2"
    assert cluster.node("gpu-2")["State"] == "IDLE", "it has come back, and the job avoids it all the same"

    record = json.loads(cluster.box.path(f"{CHECKPOINTS}/.gpunode-attempts-{job}.json").read_text())["attempts"]
    assert [attempt["failed"] for attempt in record][:2] == [["gpu-2"], ["gpu-2"]]
    assert record[-1]["end"] == "ok"


def test_accounting_has_both_attempts(cluster: Cluster) -> None:
    shown = cluster.ask(
        "sacct", "--duplicates", "--allocations", "--parsable2", "--noheader", "--format=State,NodeList"
    )
    states = [line.split("|")[0] for line in shown.splitlines()]
    assert states[:2] == ["NODE_FAIL", "NODE_FAIL"], shown
    assert states[-1] == "COMPLETED"


def test_before_its_time_limit_a_job_saves_and_goes_back_into_the_queue(cluster: Cluster) -> None:
    folder = f"{SHARED}/limited"
    cluster.box.path(folder).mkdir(mode=0o777)
    cluster.box.path(folder).chmod(0o777)
    script = f"""#!/bin/bash
#SBATCH --requeue --open-mode=append --signal=B:USR1@300 --output={folder}/log
exec gpunode resume --directory {folder} --attempts 2 -- srun bash -c '
echo "from ${{RESUME_FROM_CHECKPOINT:-nothing}}"
[ -z "$RESUME_FROM_CHECKPOINT" ] || exit 0
trap "mkdir {folder}/last; touch {folder}/last/.complete; exit 0" TERM
touch {folder}/started
while :; do sleep 0.2; done'
"""
    job = cluster.submit(script)
    cluster.eventually(lambda: cluster.box.path(f"{folder}/started").exists())
    # What Slurm does 300 s before the limit (sbatch(1), --signal=B).
    cluster.ask("scancel", "--batch", "--signal=USR1", job)
    cluster.eventually(lambda: cluster.job(job)["JobState"] == "COMPLETED")
    said = [line for line in cluster.box.path(f"{folder}/log").read_text().splitlines() if line.startswith("from")]
    assert said == ["from nothing", f"from {folder}/last"]
    assert cluster.job(job)["Restarts"] == "1"


def _has_complete(cluster: Cluster, count: int) -> bool:
    folder = cluster.box.path(CHECKPOINTS)
    return len(list(folder.glob("step-*/.complete"))) > count


def _log(cluster: Cluster) -> str:
    return cluster.box.path(f"{SHARED}/log").read_text()


def _names(cluster: Cluster, host_list: str) -> list[str]:
    return cluster.ask("scontrol", "show", "hostnames", host_list).split()
