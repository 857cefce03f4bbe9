"""Ray on Kubernetes while nodes are drained, updated and lost: what the pages promise, from one node to a hundred.

The manifests are those that the product writes; `kube_simulation.ray` has what KubeRay's operator makes of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.kubernetes.node_pool import NodePool, node_pool
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.kubernetes.ray import RayPods, RayRedis, gpu_ray_cluster, gpu_ray_job, gpu_ray_service
from cdk_gpu_clusters.kubernetes.ray_head import RayHead, ray_system_pods
from cdk_gpu_clusters.kubernetes.software.charts import kuberay
from cdk_gpu_clusters.kubernetes.software.release import SoftwareSource
from cdk_gpu_clusters_stacks.manifests.cluster import node_pools, volumes
from cdk_gpu_clusters_stacks.manifests.files import applied, jobs
from kube_simulation.cluster import Cluster, DeadlockError, Minutes, Node
from kube_simulation.files import largest
from kube_simulation.operations import DONE, Maintenance, ManagedUpdate, Rollout, perform, settle
from kube_simulation.ray import RayCluster, RayJob, RayService
from kube_simulation.system import SYSTEM, ZONES, add_system_nodes, deployment
from kube_simulation.workloads import cluster_of
from kubernetes_pools import Objects

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("eks-*.yaml"))
SIZES = (1, 2, 3, 10, 100)
PODS = RayPods(image="111122223333.dkr.ecr.us-east-1.amazonaws.com/ray:1", ray_version="2.60.0")
WITH_REDIS = replace(PODS, redis=RayRedis(address="rediss://ray.example.com:6379"))
(OPERATOR, HEAD) = ray_system_pods([RayHead()])
#: What the values of the chart set.
SILENCE = int(kuberay(SoftwareSource()).values["env"][0]["value"]) // 60
#: Those for which the cluster file has no warning.
LARGE, SMALL = "m7i.xlarge", "m7i.large"


def running(
    pools: list[NodePool], objects: Objects, *, seed: int = 0, system: str = LARGE, silence: int = SILENCE
) -> Cluster:
    """Ray on its nodes, with the head on one of two system nodes."""
    cluster = cluster_of(pools, objects, seed=seed, minutes=Minutes(ray_silence=silence))
    kuberay_operator = deployment(OPERATOR.name, OPERATOR.cpu_millicores, OPERATOR.memory_mib)
    add_system_nodes(cluster, instance_type=system, more=[kuberay_operator])
    settle(cluster)
    return cluster


def trainers(size: int) -> NodePool:
    return node_pool("trainers", instance_type="p5.48xlarge", node_count=size)


def a_job(size: int = 4, *, of: int | None = None, pods: RayPods = PODS, **given: Any) -> tuple[NodePool, Objects]:
    """A job on some of the nodes, and its queue."""
    pool = trainers(size)
    job = gpu_ray_job("tune", pool, pods, node_count=of or size, command=["python", "tune.py"], **given)
    return pool, [*queues([pool], ray_heads=[RayHead()]), *job]


def a_service(size: int = 4, *, of: int = 2, pods: RayPods = PODS) -> tuple[NodePool, Objects]:
    pool = trainers(size)
    serve = {"applications": [{"name": "chat", "import_path": "chat:app", "route_prefix": "/"}]}
    return pool, gpu_ray_service("chat", pool, pods, node_count=of, serve_config=serve)


def ray_of(cluster: Cluster) -> Any:
    (found,) = (one for one in cluster.workloads if isinstance(one, (RayCluster, RayJob, RayService)))
    return found


def head_node(cluster: Cluster) -> Node:
    head = next(pod for pod in ray_of(cluster).pods if pod.member == 0)
    return head.node  # type: ignore[no-any-return]


@cache
def example(file: Path, size: int) -> dict[str, tuple[list[NodePool], Objects]]:
    """The jobs of Ray that a cluster file writes for groups of so many nodes, each with the queues."""
    spec = largest(file, size, ray=True)
    pools = node_pools(spec, volumes(spec))
    queued = [one for name, part in applied(spec, pools).items() if name.startswith("cluster/") for one in part.objects]
    return {
        name: ([*pools.values()], [*queued, *part.objects])
        for name, part in jobs(spec, pools).items()
        if any(one["kind"] == "RayJob" for one in part.objects)
    }


def cases() -> list[Any]:
    """Every training fleet of every example whose nodes take Ray."""
    made = [(file, size, name) for file in EXAMPLES for size in SIZES for name in example(file, size)]
    assert len({(file, name) for file, _, name in made}) == 5
    return [pytest.param(*one, id=f"{one[1]} nodes, {one[0].stem} {one[2]}") for one in made]


@pytest.mark.parametrize(("file", "size", "name"), cases())
def test_jobs_of_examples_outlive_updates_and_drains_of_their_nodes(file: Path, size: int, name: str) -> None:
    """No worker that is lost counts as a failure of the program."""
    pools, objects = example(file, size)[name]
    cluster = running(pools, objects)
    job = ray_of(cluster)
    group = next(
        pool for pool in pools if pool.name == job.sets[1].template["spec"]["nodeSelector"]["gpu-cluster/fleet"]
    )
    for waits in (True, False) if size < 100 else (False,):
        update = ManagedUpdate(group.name, minimal=True, most_nodes=group.node_count, waits_for_nodes=waits)
        assert perform(cluster, [update]) == [DONE]
    assert perform(cluster, [Maintenance(cluster.of_pool(group.name)[: size // 2 + 1])]) == [DONE]
    assert (job.failures, job.has_failed) == (0, False)


@pytest.mark.parametrize("queue", ["gpu-jobs", None])
@pytest.mark.parametrize("seed", range(8))
def test_a_job_outlives_updates_and_drains_of_the_system_nodes(queue: str | None, seed: int) -> None:
    """The program starts again on the new head, and no restart is counted."""
    pool, objects = a_job(queue=queue)
    cluster = running([pool], objects, seed=seed)
    job = ray_of(cluster)
    assert perform(cluster, [Maintenance([head_node(cluster)])]) == [DONE]
    assert job.starts == 2
    assert perform(cluster, [ManagedUpdate(SYSTEM, zones=len(ZONES), waits_for_nodes=bool(seed % 2))]) == [DONE]
    assert (job.failures, job.number) == (0, 1)


@pytest.mark.parametrize("queue", ["gpu-jobs", None])
@pytest.mark.parametrize("size", SIZES)
def test_a_cluster_that_stays_outlives_all_of_it(queue: str | None, size: int) -> None:
    pool = trainers(size)
    made = gpu_ray_cluster("tune", pool, PODS, node_count=max(1, size - 1), queue=queue)
    cluster = running([pool], [*queues([pool], ray_heads=[RayHead()]), *made])
    updates = [ManagedUpdate(pool.name, minimal=True), ManagedUpdate(SYSTEM, zones=len(ZONES))]
    assert perform(cluster, updates) == [DONE, DONE]
    assert perform(cluster, [Maintenance(cluster.of_pool(pool.name))]) == [DONE]


def test_by_the_own_time_of_kuberay_a_drain_ends_a_job_for_good() -> None:
    """With 300 s it fails while a system node is away, and restarts do not help: what the values of the chart change."""
    for silence, ends in ((5, False), (SILENCE, True)):
        pool, objects = a_job(queue=None, max_restarts=3)
        cluster = running([pool], objects, system=SMALL, silence=silence)
        drain = [Maintenance([head_node(cluster)])]
        if ends:
            assert perform(cluster, drain) == [DONE]
        else:
            with pytest.raises(DeadlockError, match="RayJob"):
                perform(cluster, drain)
        job = ray_of(cluster)
        assert (job.has_failed, job.failures) == (not ends, 0)


def test_a_large_image_does_not_end_a_job() -> None:
    for silence, fails in ((5, True), (SILENCE, False)):
        pool, objects = a_job(queue=None)
        cluster = running([pool], objects, silence=silence)
        cluster.minutes = Minutes(start=10, ray_silence=silence)
        perform(cluster, [Maintenance([head_node(cluster)])], until_whole=not fails)
        for _ in range(10):
            cluster.tick()
        assert ray_of(cluster).has_failed is fails


@pytest.mark.parametrize("seed", range(6))
def test_small_system_nodes_have_no_room_for_a_head_while_one_is_away(seed: int) -> None:
    """The cluster file warns of it: GPU-EKS-030."""
    for system, waits in ((SMALL, True), (LARGE, False)):
        pool, objects = a_job(queue=None)
        cluster = running([pool], objects, seed=seed, system=system)
        node = head_node(cluster)
        perform(cluster, [Maintenance([node])], until_whole=False)
        assert (ray_of(cluster).starts == 1) is waits, "a new head has started meanwhile"


def test_kueue_and_other_pods_can_leave_a_head_without_a_place() -> None:
    """Pods of the cluster take the room that Kueue saw, and the head stays on that node: small system nodes again."""
    held_up = 0
    for seed in range(12):
        pool, objects = a_job()
        cluster = running([pool], objects, seed=seed, system=SMALL)
        try:
            perform(cluster, [ManagedUpdate(SYSTEM, zones=len(ZONES))])
        except DeadlockError:
            held_up += 1
    assert 0 < held_up < 12


@pytest.mark.parametrize("restarts", [0, 1])
def test_with_redis_a_lost_head_counts_as_a_failure(restarts: int) -> None:
    """The new head knows that the program ended."""
    pool, objects = a_job(pods=WITH_REDIS, max_restarts=restarts)
    cluster = running([pool], objects)
    job = ray_of(cluster)
    drain = [Maintenance([head_node(cluster)])]
    if restarts:
        assert perform(cluster, drain) == [DONE]
        assert (job.failures, job.number, job.starts) == (1, 2, 2)
    else:
        with pytest.raises(DeadlockError, match="RayJob"):
            perform(cluster, drain)
        assert job.has_failed


def test_a_job_that_loses_a_node_gets_a_spare_one_and_goes_on() -> None:
    pool, objects = a_job(4, of=3)
    cluster = running([pool], objects)
    job = ray_of(cluster)
    worker = next(pod for pod in job.pods if pod.member == 1)
    lost = worker.node
    perform(cluster, [Maintenance([lost])], until_whole=False)
    assert next(pod for pod in job.pods if pod.member == 1).host != lost.name
    assert (job.starts, job.failures) == (1, 0)


def test_a_job_that_loses_a_node_without_a_spare_one_waits_for_all() -> None:
    """Kueue evicts it: its pods end, and it starts again with all nodes, which is no failure."""
    pool, objects = a_job()
    cluster = running([pool], objects)
    job = ray_of(cluster)
    worker = next(pod for pod in job.pods if pod.member == 1)
    drain = Maintenance([worker.node])
    seen = set()
    for _ in range(30):
        cluster.tick()
        if drain.result is None:
            drain.step(cluster)
        seen.add(len(job.pods))
    assert drain.result == DONE
    assert 0 in seen
    assert (job.starts, job.failures) == (2, 0)


# Services.


@pytest.mark.parametrize("size", [2, 4, 10, 100])
@pytest.mark.parametrize("pods", [PODS, WITH_REDIS])
def test_a_new_version_of_a_service_takes_no_server(size: int, pods: RayPods) -> None:
    pool, objects = a_service(size, of=size // 2, pods=pods)
    cluster = running([pool], objects)
    service = ray_of(cluster)
    assert perform(cluster, [Rollout(service)]) == [DONE]
    assert cluster.worst["RayService/chat"] == 0
    assert {pod.revision for pod in service.pods} == {2}


def test_a_service_without_room_for_two_keeps_its_version() -> None:
    pool, objects = a_service(3, of=2)
    cluster = running([pool], objects)
    service = ray_of(cluster)
    assert perform(cluster, [Rollout(service)]) == [DONE]
    assert {pod.revision for pod in service.pods} == {1}
    assert cluster.worst["RayService/chat"] == 0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("waits", [True, False])
def test_an_update_takes_the_servers_of_the_nodes_that_are_away(size: int, waits: bool) -> None:
    """No budget holds up a drain. If EKS does not wait for new nodes, it goes on while servers wait for theirs."""
    pool, objects = a_service(size, of=size)
    cluster = running([pool], objects)
    most = pool.node_count
    assert perform(cluster, [ManagedUpdate(pool.name, minimal=True, most_nodes=most, waits_for_nodes=waits)]) == [DONE]
    assert cluster.worst["RayService/chat"] <= (min(2, size) if waits else min(5, size))


@pytest.mark.parametrize(("pods", "lost"), [(PODS, 2), (WITH_REDIS, 0)])
def test_the_loss_of_a_head_takes_all_servers_unless_there_is_a_redis(pods: RayPods, lost: int) -> None:
    pool, objects = a_service(pods=pods)
    cluster = running([pool], objects)
    assert perform(cluster, [ManagedUpdate(SYSTEM, zones=len(ZONES))]) == [DONE]
    assert cluster.worst["RayService/chat"] == lost


def test_a_service_that_loses_its_head_during_an_upgrade_is_away_until_the_upgrade_ends() -> None:
    """While there are two clusters, KubeRay gives applications to the second one only."""
    pool, objects = a_service(4, of=2)
    cluster = running([pool], objects)
    service = ray_of(cluster)
    free = [node for node in cluster.of_pool(pool.name) if not node.pods]
    free[0].is_cordoned = True
    service.roll()
    perform(cluster, [Maintenance([head_node(cluster)])], until_whole=False)
    for _ in range(60):
        cluster.tick()
    assert service.unavailable(cluster) == 2
    free[0].is_cordoned = False
    for _ in range(10):
        cluster.tick()
    assert (service.unavailable(cluster), service.has_rolled) == (0, True)
