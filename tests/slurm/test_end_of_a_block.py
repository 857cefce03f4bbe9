"""The end of the capacity of a node whose drain would have it replaced, as AWS ParallelCluster does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdk_gpu_clusters.node.slurm_settings import cluster_settings
from slurmbox.box import Box
from slurmbox.cluster import SHARED, Cluster

FIRST, SECOND = NODES = ("gpu-1", "gpu-2")
_END = f"{SHARED}/end"
_JOB = f"#!/bin/bash\nuntil [ -e {_END} ]; do sleep 0.1; done\n"
_MARK = """
mount --bind /nodes/{name}/etc/node.env /etc/gpu-cluster/node.env
exec python3 -c '
import sys
sys.path.insert(0, "/usr/local/lib/gpu-cluster")
from gpunode.actions.slurm import Slurm
from gpunode.node import this_node
Slurm(this_node()).keep_new_work_away("capacity-block-end")'
"""


@pytest.fixture(scope="module")
def cluster(box: Box) -> Iterator[Cluster]:
    nodes = dict.fromkeys(NODES, "CPUs=2 RealMemory=1000")
    environment = ("GPU_ORCHESTRATOR=slurm", "GPU_REPLACES_DRAINED=1", "GPU_DRAIN_AT=2026-01-01T00:00:00Z")
    with Cluster(box, nodes, cluster_settings(), node_environment=environment) as cluster:
        cluster.eventually(lambda: all(cluster.node(name)["State"] == "IDLE" for name in NODES))
        yield cluster


def states(cluster: Cluster, name: str) -> set[str]:
    return set(cluster.node(name)["State"].split("+"))


def test_running_jobs_go_on_and_no_others_begin_without_a_drain(cluster: Cluster) -> None:
    runs = cluster.submit(_JOB, f"--nodelist={FIRST}", "--exclusive")
    cluster.eventually(lambda: cluster.job(runs)["JobState"] == "RUNNING")
    for name in (*NODES, *NODES):  # the second time changes nothing
        cluster.box.run("unshare", "--mount", "sh", "-c", _MARK.format(name=name))
    # ParallelCluster takes it for healthy (aws-parallelcluster-node @ 2e8f9a8, slurm_resources.py: is_in_maintenance,
    # and is_state_healthy, which looks for DRAIN and DOWN).
    cluster.eventually(lambda: states(cluster, SECOND) == {"IDLE", "MAINTENANCE", "RESERVED"})
    waits = cluster.submit(_JOB, f"--nodelist={SECOND}")
    cluster.eventually(lambda: cluster.job(waits)["Reason"] != "None")  # the scheduler has looked at it
    assert cluster.job(waits)["JobState"] == "PENDING"
    assert cluster.job(runs)["JobState"] == "RUNNING"
    cluster.box.write(_END, "")
    cluster.eventually(lambda: cluster.job(runs)["JobState"] == "COMPLETED")
    cluster.eventually(lambda: states(cluster, FIRST) == {"IDLE", "MAINTENANCE", "RESERVED"})
    assert cluster.job(waits)["JobState"] == "PENDING"
