"""Slurm on Kubernetes while nodes are drained and updated: what the pages promise, from one node to a hundred.

The values of the charts are those that the product writes; `kube_simulation.slinky` has what Slinky's operator does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.kubernetes.node_pool import NodePool, node_pool
from cdk_gpu_clusters.kubernetes.software import ChartRelease, SlurmCluster, SlurmDatabase, slurm_software
from cdk_gpu_clusters_stacks.manifests.cluster import node_pools, releases, volumes
from kube_simulation.cluster import Cluster, DeadlockError, Node
from kube_simulation.files import largest
from kube_simulation.operations import DONE, Maintenance, ManagedUpdate, Operation, Rollout, perform, settle
from kube_simulation.slinky import Job, NodeSet, Slurm, slurm_on
from kube_simulation.system import SYSTEM, ZONES

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "eks-p5-slurm.yaml"
SIZES = (1, 2, 3, 10, 100)
Charts = tuple[list[NodePool], tuple[ChartRelease, ...]]


@cache
def example(size: int) -> Charts:
    """The groups of the example that belong to Slurm, with so many nodes each, and its charts."""
    spec = largest(EXAMPLE, size)
    pools = node_pools(spec, volumes(spec))
    charts = tuple(one for one in releases(spec, pools.values()) if one.chart in {"slurm", "slurm-operator"})
    return [pools[name] for name in spec.slinky_fleets], charts


def trainers(size: int, **given: Any) -> Charts:
    pools = [node_pool("trainers", instance_type="g6e.48xlarge", node_count=size)]
    return pools, slurm_software(pools, SlurmCluster(**given))


def short_jobs(pools: Sequence[NodePool]) -> list[Job]:
    """Jobs of up to ten minutes, again and again: on all nodes, on half of them, and on one."""
    return [
        Job(pool.name, count, minutes, repeats=True)
        for pool in pools
        for count, minutes in ((pool.node_count, 3), (ceil(pool.node_count / 2), 10), (1, 7), (1, 4))
    ]


def running(charts: Charts, jobs: Sequence[Job] = (), **given: Any) -> Cluster:
    """Slurm with all its pods; jobs come afterwards, and have begun."""
    cluster = slurm_on(*charts, (), **given)
    settle(cluster)
    slurm_of(cluster).jobs += jobs
    for _ in range(2):
        cluster.tick()
    return cluster


def slurm_of(cluster: Cluster) -> Slurm:
    return next(one for one in cluster.workloads if isinstance(one, Slurm))


def nodesets(cluster: Cluster) -> list[NodeSet]:
    return [one for one in cluster.workloads if isinstance(one, NodeSet)]


def lost(cluster: Cluster) -> int:
    """How often a pod ended under a job."""
    return sum(job.lost for job in slurm_of(cluster).jobs)


def node_of(cluster: Cluster, name: str) -> Node:
    """Where the first pod of a workload runs."""
    found = next(one.pods[0].node for one in cluster.workloads if one.name == name)
    assert found is not None
    return found


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_an_update_of_the_nodes_ends_no_job(size: int, waits: bool) -> None:
    """Jobs of the example end within the 15 minutes that EKS waits; old nodes go first."""
    pools, charts = example(size)
    cluster = running((pools, charts), short_jobs(pools))
    updates = [ManagedUpdate(pool.name, minimal=True, waits_for_nodes=waits) for pool in pools]
    assert perform(cluster, updates) == [DONE] * len(pools)
    assert lost(cluster) == 0
    for pool in pools:
        assert {node.version for node in cluster.of_pool(pool.name)} == {2}


@pytest.mark.parametrize("size", SIZES)
def test_a_new_version_of_the_pods_takes_a_quarter_of_the_nodes(size: int) -> None:
    """The operator waits for jobs of any length, and those of half of the nodes go on starting."""
    pools, charts = example(size)
    cluster = running((pools, charts), [*short_jobs(pools), Job(pools[0].name, 1, 120)])
    cluster.watch()
    assert perform(cluster, [Rollout(one) for one in nodesets(cluster)]) == [DONE] * len(pools)
    for one in nodesets(cluster):
        assert cluster.worst[one.name] <= ceil(one.replicas / 4)
    assert lost(cluster) == 0


@pytest.mark.parametrize("size", SIZES)
def test_a_drain_waits_for_the_job(size: int) -> None:
    cluster = running(trainers(size), [Job("trainers", size, 120)])
    began = cluster.now
    assert perform(cluster, [Maintenance(cluster.of_pool("trainers")[:2])]) == [DONE]
    assert cluster.now - began >= 118
    assert lost(cluster) == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_rollout_during_drains_and_updates_ends(seed: int) -> None:
    """All at once: a new version, a drain of a node, and an update of the system nodes."""
    pools, charts = trainers(8)
    cluster = running((pools, charts), short_jobs(pools), seed=seed)
    (trainer,) = nodesets(cluster)
    operations: list[Operation] = [
        Rollout(trainer),
        Maintenance(cluster.of_pool("trainers")[:1]),
        ManagedUpdate(SYSTEM, zones=len(ZONES)),
    ]
    assert perform(cluster, operations) == [DONE] * 3
    assert lost(cluster) == 0


def test_long_jobs_end_an_update_of_eks_and_not_the_other_way_round() -> None:
    """The cluster file warns of it: GPU-SPEC-064."""
    for minutes, result in ((10, DONE), (60, "PodEvictionFailure")):
        cluster = running(trainers(4), [Job("trainers", 4, minutes)])
        assert perform(cluster, [ManagedUpdate("trainers", minimal=True)], until_whole=False) == [result]
        assert lost(cluster) == 0


def test_an_update_after_the_partition_is_down_ends() -> None:
    """What the page asks for: no new jobs, then the update, then jobs again."""
    cluster = running(trainers(4), [Job("trainers", 4, 60, repeats=True)])
    slurm, (trainer,) = slurm_of(cluster), nodesets(cluster)
    slurm.down.add("trainers")
    while trainer.busy():
        cluster.tick()
    assert perform(cluster, [ManagedUpdate("trainers", minimal=True)]) == [DONE]
    slurm.down.clear()
    cluster.tick()
    assert (trainer.busy(), lost(cluster)) == (4, 0)


@pytest.mark.parametrize(("minimal", "away"), [(True, 2), (False, 10)])
def test_an_update_that_adds_nodes_first_closes_the_whole_group(minimal: bool, away: int) -> None:
    """EKS cordons every old node before it replaces the first one, and the operator drains what is cordoned.

    Otherwise the pod of the last new node may still start while EKS drains the next old one.
    """
    cluster = running(trainers(10))
    cluster.watch()
    assert perform(cluster, [ManagedUpdate("trainers", minimal=minimal)]) == [DONE]
    assert cluster.worst["NodeSet/trainers"] == away


def test_a_job_that_began_within_half_a_minute_is_not_protected() -> None:
    """The operator has not seen it. A cordon a minute before the drain closes the node first."""
    for waits, ended in ((False, 1), (True, 0)):
        charts = trainers(2)
        cluster = running(charts, is_late=True)
        job = Job("trainers", 2, 10)
        slurm_of(cluster).jobs.append(job)
        (node, *_) = cluster.of_pool("trainers")
        if waits:
            node.is_cordoned = True
            cluster.tick()
        assert perform(cluster, [Maintenance([node])], until_whole=False) == [DONE]
        assert job.lost == ended
        while job in slurm_of(cluster).jobs:
            cluster.tick()


# The pods beside the nodes.


def test_slurmctld_waits_for_its_zone_and_jobs_go_on() -> None:
    """Its volume is in the zone of one of two system nodes. No job starts meanwhile, and no drain of a node ends."""
    cluster = running(trainers(4), [Job("trainers", 4, 30)])
    (trainer,) = nodesets(cluster)
    cluster.watch()
    drains = [Maintenance([node_of(cluster, "StatefulSet/slurmctld")]), Maintenance(cluster.of_pool("trainers"))]
    assert perform(cluster, drains) == [DONE, DONE]
    assert cluster.worst["StatefulSet/slurmctld"] == 1
    assert (trainer.busy(), lost(cluster)) == (0, 0)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_an_update_of_the_system_nodes_ends_with_slurm_on_them(seed: int, waits: bool) -> None:
    """Also with accounting, whose pod may move between zones."""
    charts = trainers(2, accounting=SlurmDatabase(host="slurm.example.com", secret_name="slurm-database"))
    cluster = running(charts, short_jobs(charts[0]), seed=seed)
    assert perform(cluster, [ManagedUpdate(SYSTEM, zones=len(ZONES), waits_for_nodes=waits)]) == [DONE]
    assert lost(cluster) == 0


def test_a_drain_of_every_node_at_once_ends() -> None:
    charts = trainers(4)
    cluster = running(charts, short_jobs(charts[0]))
    assert perform(cluster, [Maintenance([*cluster.nodes.values()])]) == [DONE]
    assert lost(cluster) == 0


# Settings that break it, so that the checks above can fail.


def test_without_the_budget_a_drain_ends_jobs() -> None:
    pools, charts = trainers(2, values={"nodesets": {"trainers": {"workloadDisruptionProtection": False}}})
    cluster = running((pools, charts), [Job("trainers", 2, 60)])
    assert perform(cluster, [Maintenance(cluster.of_pool("trainers")[:1])]) == [DONE]
    assert lost(cluster) == 1


def test_a_job_without_an_end_holds_up_a_drain() -> None:
    cluster = running(trainers(2), [Job("trainers", 1, 10**6)])
    (busy,) = (
        node for node in cluster.of_pool("trainers") if any(nodesets(cluster)[0].node(one).job for one in node.pods)
    )
    with pytest.raises(DeadlockError, match="Maintenance"):
        perform(cluster, [Maintenance([busy])])


def test_a_quarter_that_may_be_away_is_that_of_the_chart() -> None:
    values = {"nodesets": {"trainers": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}}}}}
    cluster = running(trainers(8, values=values))
    cluster.watch()
    assert perform(cluster, [Rollout(nodesets(cluster)[0])]) == [DONE]
    assert cluster.worst["NodeSet/trainers"] == 8
