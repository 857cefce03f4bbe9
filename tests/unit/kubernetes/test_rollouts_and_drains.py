"""Rollouts, drains and updates of nodes end, and take no more servers than promised: from one node to a hundred.

The manifests are those that the product writes. `kube_simulation` runs them; what it takes for the behaviour of
Kubernetes is held against a record of the real one (tools/record_kubernetes.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk_gpu_clusters.fleet.karpenter import gpu_node_pool
from cdk_gpu_clusters.fleet.node_group import NodeGroupRequest, plan_node_group
from cdk_gpu_clusters.fleet.plan import plan_fleet
from cdk_gpu_clusters.fleet.profile import EKS_MANAGED
from cdk_gpu_clusters.fleet.request import FleetRequest
from cdk_gpu_clusters.kubernetes.mig import mig_fan_out
from cdk_gpu_clusters.kubernetes.model_deployment import model_deployment
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.multi_node_model import multi_node_model
from cdk_gpu_clusters.kubernetes.nccl_test import nccl_test
from cdk_gpu_clusters.kubernetes.node_pool import NodePool, node_pool
from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace, QueueScaling
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.node_group import UpdateStrategy
from cdk_gpu_clusters_stacks.manifests.cluster import node_pools, volumes
from cdk_gpu_clusters_stacks.manifests.files import applied, jobs
from cdk_gpu_clusters_stacks.spec.planned_fleet import planned_fleets
from kube_simulation.cluster import Cluster, DeadlockError, Minutes
from kube_simulation.files import largest
from kube_simulation.operations import (
    DONE,
    KarpenterDrift,
    Maintenance,
    ManagedUpdate,
    Operation,
    Rollout,
    perform,
    settle,
)
from kube_simulation.workloads import Deployment, LeaderWorkerSet, cluster_of
from kubernetes_pools import MIXED, Objects, pool_of, slices

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("eks-*.yaml"))
RECORD = json.loads(Path(__file__).with_name("recorded_kubernetes.json").read_text("utf-8"))
SIZES = (1, 2, 3, 10, 100)
VLLM = ServerPod(image="vllm/vllm-openai:v0.21.0", command=["--tensor-parallel-size", "4"])
BY_KEDA = QueueScaling(workspace=PrometheusWorkspace(workspace_id="ws-0123abcd", region="us-east-1"))
SERVER = ServerPod(image="111122223333.dkr.ecr.us-east-1.amazonaws.com/server:1", command=["serve"])


# What the simulation takes for Kubernetes, against what Kubernetes did.


def plain(replicas: int, *, surge: int | str = 0, away: int | str = "25%", budget: Any = None) -> Cluster:
    """A Deployment of small pods on nodes with room for all, as the record has it."""
    manifest = {
        "kind": "Deployment",
        "metadata": {"name": "one"},
        "spec": {
            "replicas": replicas,
            "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": away}},
            "template": {"metadata": {"labels": {"app": "one"}}, "spec": {"containers": []}},
        },
    }
    budgets = [] if budget is None else [budget_of(budget)]
    cluster = cluster_of([pool_of("g6e.xlarge", taints=())], [manifest, *budgets])
    settle(cluster)
    return cluster


def budget_of(spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "PodDisruptionBudget", "spec": {"selector": {"matchLabels": {"app": "one"}}, **spec}}


@pytest.mark.parametrize("seen", RECORD["rollouts"], ids=str)
def test_deployments_roll_as_the_real_controller_does(seen: dict[str, Any]) -> None:
    cluster = plain(seen["replicas"], surge=seen["maxSurge"], away=seen["maxUnavailable"])
    (deployment,) = deployments(cluster)
    deployment.roll()
    most = fewest = seen["replicas"]
    while not (deployment.has_rolled and cluster.is_whole):
        cluster.tick()
        alive = [pod for pod in deployment.pods if pod.gone_at is None]
        most, fewest = max(most, len(alive)), min(fewest, sum(map(cluster.is_ready, alive)))
    assert (fewest, most) == (seen["fewest_ready"], seen["most_pods"])


@pytest.mark.parametrize("seen", RECORD["budgets"], ids=str)
def test_budgets_allow_what_the_real_api_allowed(seen: dict[str, Any]) -> None:
    cluster = plain(seen["replicas"], budget=seen["spec"])
    (deployment,) = deployments(cluster)
    assert cluster.budgets[0].desired(deployment.pods) == seen["desired_healthy"]
    assert sum(map(cluster.evict, list(deployment.pods))) == seen["evicted"]


@pytest.mark.parametrize("seen", RECORD["unready"], ids=str)
def test_pods_that_are_not_ready_are_evicted_as_by_the_real_api(seen: dict[str, Any]) -> None:
    def sick() -> tuple[Cluster, Deployment]:
        away = f"{100 * seen['broken'] // seen['replicas']}%"
        cluster = plain(seen["replicas"], away=away, budget={"maxUnavailable": seen["maxUnavailable"]})
        (deployment,) = deployments(cluster)
        deployment.roll(broken=True)
        for _ in range(10):
            cluster.tick()
        return cluster, deployment

    for is_ready, name in ((False, "of_unready"), (True, "of_ready")):
        cluster, deployment = sick()
        pods = [one for one in deployment.pods if cluster.is_ready(one) is is_ready]
        assert seen[name] == (cluster.evict(pods[0]) if pods else None)


def test_two_budgets_refuse_as_the_real_api_did() -> None:
    assert RECORD["two_budgets"] == 500
    cluster = plain(2, budget={"maxUnavailable": "100%"})
    cluster.budgets.append(cluster.budgets[0])
    assert not cluster.evict(deployments(cluster)[0].pods[0])


# What runs on nodes, and what is done to it.


def deployments(cluster: Cluster) -> list[Deployment]:
    return [one for one in cluster.workloads if isinstance(one, Deployment)]


@dataclass(frozen=True)
class Case:
    """Objects on groups of nodes; `update` is how EKS updates each group."""

    pools: Sequence[NodePool]
    objects: Objects
    update: dict[str, UpdateStrategy]


@cache
def example(file: Path, size: int) -> dict[str, Case]:
    """What a cluster file writes for groups of so many nodes: its services together, and each of its jobs."""
    spec = largest(file, size)
    pools = node_pools(spec, volumes(spec))
    update = {one.node_group.pool.name: one.node_group.update_strategy for one in planned_fleets(spec)}
    base = applied(spec, pools)
    queued = [one for name, part in base.items() if name.startswith("cluster/") for one in part.objects]
    services = [one for name, part in base.items() if name.startswith("services/") for one in part.objects]
    made = {"services": Case([*pools.values()], services, update)} if services else {}
    for name, part in jobs(spec, pools).items():
        if part.objects[0]["kind"] in {"JobSet", "Job"}:
            made[name] = Case([*pools.values()], [*queued, *part.objects], update)
    return made


def functions(size: int) -> dict[str, Case]:
    """What the functions of the pages write for so many nodes."""
    minimal, default = UpdateStrategy.MINIMAL, UpdateStrategy.DEFAULT
    trainers = node_pool("trainers", instance_type="p5.48xlarge", node_count=size)
    chat = node_pool("chat", instance_type="g6e.48xlarge", node_count=size)
    mixed = slices(MIXED, node_count=size)
    job: dict[str, Any] = {"node_count": size, "image": "train:1", "command": ["train.py"]}
    found = {
        "torchrun": Case([trainers], [*queues([trainers]), *torchrun_job("llama", trainers, **job)], {}),
        "nccl": Case([trainers], [*queues([trainers]), *nccl_test(trainers, node_count=min(2, size))], {}),
        "pairs of GPUs": Case([chat], model_deployment("chat", chat, SERVER, devices_per_server=2), {"chat": default}),
        "servers by KEDA": Case(
            [chat], model_deployment("chat", chat, VLLM, devices_per_server=4, scaling=BY_KEDA), {"chat": default}
        ),
        "one server": Case([chat], model_deployment("chat", chat, SERVER, servers=1), {"chat": default}),
        "mixed slices": Case(
            [mixed],
            [
                one
                for name in ("3g.20gb", "2g.10gb", "1g.5gb")
                for one in model_deployment(f"m{name[0]}", mixed, SERVER, profile=name)
            ],
            {},
        ),
        "fan-out": Case([mixed], [*queues([mixed]), *mig_fan_out("upscale", mixed, image="up:1", command=["up"])], {}),
    }
    if size > 1:
        found["over two nodes"] = Case([trainers], multi_node_model("large", trainers, SERVER, nodes_per_server=2), {})
    return {
        name: Case(one.pools, one.objects, one.update or {one.pools[0].name: minimal}) for name, one in found.items()
    }


def cases() -> list[Any]:
    """Every case at every size; a hundred nodes of slices take too long for a test."""
    made = []
    for size in SIZES:
        of_files = {f"{file.stem} {name}": one for file in EXAMPLES for name, one in example(file, size).items()}
        for name, one in {**of_files, **functions(size)}.items():
            if size < 100 or one.pools[0].mig is None:
                made.append(pytest.param(one, id=f"{size} nodes, {name}"))
    return made


def promised(case: Case, at_once: int) -> dict[str, int]:
    """What the pages promise: most servers of each workload that do not work at a time.

    A quarter, or those of the nodes that an update empties at once, in whole percent; of servers over several nodes one,
    or those of these nodes.
    """
    found = {}
    for one in case.objects:
        name = f"{one['kind']}/{one['metadata']['name']}"
        nodes = case.pools[0].node_count
        if one["kind"] in {"Deployment", "Rollout"}:
            servers = one["spec"].get("replicas") or most_servers(case.objects, one["metadata"]["name"])
            percent = max(25, ceil(100 * min(at_once, nodes) / nodes))
            found[name] = ceil(servers * percent / 100)
        elif one["kind"] == "LeaderWorkerSet":
            found[name] = min(at_once, one["spec"]["replicas"])
    return found


def most_servers(objects: Objects, name: str) -> int:
    most = {"HorizontalPodAutoscaler": "maxReplicas", "ScaledObject": "maxReplicaCount"}
    (scaler,) = (one for one in objects if one["kind"] in most and one["metadata"]["name"] == name)
    return int(scaler["spec"][most[scaler["kind"]]])


def hold(cluster: Cluster, case: Case, operations: Sequence[Operation], at_once: int = 1) -> None:
    """Do it, and hold the servers that it took against the promise."""
    assert perform(cluster, operations) == [DONE] * len(operations)
    for name, most in promised(case, at_once).items():
        assert cluster.worst[name] <= most, (name, cluster.worst[name], most)


def running(case: Case, **given: Any) -> Cluster:
    cluster = cluster_of(case.pools, case.objects, **given)
    settle(cluster)
    return cluster


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("case", cases())
def test_an_update_of_the_nodes_ends(case: Case, waits: bool) -> None:
    cluster = running(case)
    for pool in case.pools:
        minimal = case.update[pool.name] is UpdateStrategy.MINIMAL
        most = pool.node_count if minimal else None
        update = ManagedUpdate(pool.name, minimal=minimal, most_nodes=most, waits_for_nodes=waits)
        hold(cluster, case, [update])
        assert {node.version for node in cluster.of_pool(pool.name)} == {2}
        assert len(cluster.of_pool(pool.name)) == pool.node_count


@pytest.mark.parametrize("case", cases())
def test_a_rollout_and_a_drain_end(case: Case) -> None:
    cluster = running(case, packs=True)
    for one in cluster.workloads:
        if isinstance(one, (Deployment, LeaderWorkerSet)):
            hold(cluster, case, [Rollout(one)])
    hold(cluster, case, [Maintenance([next(iter(cluster.nodes.values()))])])


@pytest.mark.parametrize("case", [pytest.param(one, id=name) for name, one in functions(10).items()])
def test_a_rollout_during_a_drain_ends(case: Case) -> None:
    cluster = running(case)
    rollouts = [Rollout(one) for one in cluster.workloads if isinstance(one, (Deployment, LeaderWorkerSet))]
    hold(cluster, case, [*rollouts, Maintenance([next(iter(cluster.nodes.values()))])])


@given(
    nodes=st.integers(1, 12),
    devices=st.sampled_from([1, 2, 4, 8]),
    at_once=st.integers(1, 4),
    minimal=st.booleans(),
    waits=st.booleans(),
    packs=st.booleans(),
    zones=st.integers(1, 3),
    seed=st.integers(0, 2**16),
    times=st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3)),
)
@settings(max_examples=60, deadline=None)
def test_updates_end_in_any_order_of_events(
    nodes: int,
    devices: int,
    at_once: int,
    minimal: bool,
    waits: bool,
    packs: bool,
    zones: int,
    seed: int,
    times: tuple[int, int, int],
) -> None:
    pool = node_pool("chat", instance_type="g6e.48xlarge", node_count=nodes, max_unavailable=at_once)
    case = Case([pool], model_deployment("chat", pool, SERVER, devices_per_server=devices), {})
    boot, start, end = times
    cluster = running(case, minutes=Minutes(boot=boot, start=start, end=end), packs=packs, seed=seed)
    update = ManagedUpdate("chat", max_unavailable=at_once, minimal=minimal, zones=zones, waits_for_nodes=waits)
    hold(cluster, case, [update], at_once)


@given(
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    drained=st.integers(0, 5),
    queue=st.just("gpu-jobs"),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=40, deadline=None)
def test_queued_jobs_never_hold_half_of_their_nodes(
    sizes: tuple[int, int], drained: int, queue: str, seed: int
) -> None:
    cluster = two_jobs(sizes, queue, seed)
    for _ in range(60):
        cluster.tick()
    one, two = cluster.workloads[1:]
    assert {len(one.pods), len(two.pods)} <= {0, *sizes}
    assert one.unavailable(cluster) + two.unavailable(cluster) == (1 if sum(sizes) > 6 else 0)
    assert perform(cluster, [Maintenance([[*cluster.nodes.values()][drained]])], until_whole=False) == [DONE]


def two_jobs(sizes: tuple[int, int], queue: str | None, seed: int) -> Cluster:
    """Two jobs on six nodes."""
    pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=6)
    made = [
        torchrun_job(name, pool, node_count=size, image="train:1", command=["train.py"], queue=queue)
        for name, size in zip(("one", "two"), sizes, strict=True)
    ]
    return cluster_of([pool], [*queues([pool]), *made[0], *made[1]], seed=seed)


# Nodes of Karpenter: what its NodePool says of updates.


def of_karpenter(
    size: int, *, rolls: bool, reserved: bool = False, minimum: int | None = None
) -> tuple[Case, dict[str, Any]]:
    """Servers on all nodes of a pool, which is static without a minimum, and its NodePool."""
    kind = CapacityKind.RESERVATION if reserved else CapacityKind.ON_DEMAND
    terms = CapacityTerms(kind=kind, reservation_id="cr-0123456789abcdef0" if reserved else None)
    fleet = plan_fleet(
        FleetRequest(
            name="chat",
            instance_type="g6e.48xlarge",
            profile=EKS_MANAGED,
            minimum=size if minimum is None else minimum,
            maximum=size,
            terms=terms,
        )
    )
    group = plan_node_group(fleet, NodeGroupRequest(name="chat", rolls=rolls))
    servers = model_deployment("chat", group.pool, SERVER, devices_per_server=4)
    return Case([group.pool], servers, {}), gpu_node_pool(fleet, group)


@pytest.mark.parametrize("size", SIZES)
def test_karpenter_replaces_nodes_within_the_promise(size: int) -> None:
    case, made = of_karpenter(size, rolls=True)
    cluster = running(case, packs=True)
    hold(cluster, case, [KarpenterDrift.of(made, pool="chat")])
    assert {node.version for node in cluster.of_pool("chat")} == {2}
    assert len(cluster.of_pool("chat")) == size


def test_karpenter_replaces_no_node_where_updates_do_not_roll() -> None:
    """The budget of a pool of training nodes is 0."""
    case, made = of_karpenter(3, rolls=False)
    cluster = running(case)
    drift = KarpenterDrift.of(made, pool="chat")
    with pytest.raises(DeadlockError):
        perform(cluster, [drift])
    assert cluster.worst == {"Deployment/chat": 0}
    assert {node.version for node in cluster.of_pool("chat")} == {1}


def test_karpenter_waits_for_room_in_a_full_reservation_and_takes_no_server_meanwhile() -> None:
    """The product warns of it: GPU-EKS-065."""
    case, made = of_karpenter(3, rolls=True, reserved=True)
    cluster = running(case)
    with pytest.raises(DeadlockError):
        perform(cluster, [KarpenterDrift.of(made, pool="chat", most_nodes=3)])
    assert cluster.worst == {"Deployment/chat": 0}


def test_karpenter_waits_while_a_pool_with_bounds_has_all_its_nodes() -> None:
    """More nodes than the most would serve pods that wait, too: the limit has no room for a replacement."""
    case, made = of_karpenter(3, rolls=True, minimum=0)
    cluster = running(case)
    with pytest.raises(DeadlockError):
        perform(cluster, [KarpenterDrift.of(made, pool="chat")])
    assert cluster.worst == {"Deployment/chat": 0}


# Settings that do not end, so that the checks above can fail.


def chat(nodes: int = 4, **given: Any) -> tuple[NodePool, Objects]:
    pool = node_pool("chat", instance_type="g6e.48xlarge", node_count=nodes)
    return pool, model_deployment("chat", pool, SERVER, **{"devices_per_server": 4, **given})


def changed(objects: Objects, kind: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Objects:
    """The objects, of which those of a kind have another spec."""
    return [{**one, "spec": change(one["spec"])} if one["kind"] == kind else one for one in objects]


def test_a_budget_of_all_servers_holds_up_every_drain() -> None:
    pool, objects = chat()
    strict = changed(
        objects, "PodDisruptionBudget", lambda spec: {"minAvailable": "100%", "selector": spec["selector"]}
    )
    cluster = running(Case([pool], strict, {}))
    assert perform(cluster, [ManagedUpdate("chat", minimal=True)]) == ["PodEvictionFailure"]
    with pytest.raises(DeadlockError, match="cordoned"):
        perform(running(Case([pool], strict, {})), [Maintenance([*cluster.nodes.values()][:1])])


def test_new_servers_beside_old_ones_have_no_place() -> None:
    pool, objects = chat()
    surging = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    cluster = running(Case([pool], changed(objects, "Deployment", lambda spec: {**spec, "strategy": surging}), {}))
    with pytest.raises(DeadlockError, match="Rollout"):
        perform(cluster, [Rollout(deployments(cluster)[0])])


def test_new_nodes_beside_old_ones_do_not_fit_a_full_reservation() -> None:
    pool, objects = chat()
    update = ManagedUpdate("chat", most_nodes=4)
    assert perform(running(Case([pool], objects, {})), [update]) == ["NodeCreationFailure"]


def test_jobs_without_a_queue_wait_for_each_other() -> None:
    assert any(
        0 < len([pod for pod in one.pods if pod.node]) < one.replicas
        for seed in range(5)
        for cluster in [ticked(two_jobs((4, 4), None, seed))]
        for one in cluster.workloads
    )


def ticked(cluster: Cluster) -> Cluster:
    for _ in range(30):
        cluster.tick()
    return cluster


@pytest.mark.parametrize("kind", ["JobSet", "Job"])
def test_without_a_failure_policy_an_update_ends_a_job(kind: str) -> None:
    """As many nodes are drained as a job may fail: a policy keeps these from being counted."""
    name = {"JobSet": "torchrun", "Job": "fan-out"}[kind]
    case = functions(3)[name]

    def counted(spec: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in spec.items() if key != "podFailurePolicy"} | (
            {"failurePolicy": {"maxRestarts": 0}} if kind == "JobSet" else {"backoffLimitPerIndex": 0}
        )

    cluster = running(Case(case.pools, changed(case.objects, kind, counted), case.update))
    with pytest.raises(DeadlockError, match=kind):
        perform(cluster, [ManagedUpdate(case.pools[0].name, minimal=True)])


def test_servers_that_never_start_do_not_hold_up_a_drain() -> None:
    """The budget of one server allows nothing while that server is not ready, but for this field of it."""
    pool, objects = chat(1, devices_per_server=8)
    kubernetes_default = changed(
        objects,
        "PodDisruptionBudget",
        lambda spec: {key: value for key, value in spec.items() if key != "unhealthyPodEvictionPolicy"},
    )
    for given_objects, ends in ((objects, True), (kubernetes_default, False)):
        cluster = running(Case([pool], given_objects, {}))
        (server,) = deployments(cluster)
        server.roll(broken=True)
        ticked(cluster)
        result = perform(cluster, [ManagedUpdate("chat", minimal=True)], until_whole=False)
        assert result == [DONE if ends else "PodEvictionFailure"]


@pytest.mark.parametrize(("probed", "ends"), [(True, True), (False, False)])
def test_workers_whose_leader_never_starts_do_not_hold_up_a_drain(probed: bool, ends: bool) -> None:
    """Without a probe they count as healthy, and the budget keeps all of them: the leader is away already."""
    pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=4)
    objects = multi_node_model("large", pool, SERVER, nodes_per_server=2)
    if not probed:
        del objects[0]["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["readinessProbe"]
    cluster = running(Case([pool], objects, {}))
    (servers,) = (one for one in cluster.workloads if isinstance(one, LeaderWorkerSet))
    servers.roll(broken=True)
    ticked(cluster)
    (worker,) = (one.node for one in servers.pods if one.member == 3)
    assert worker is not None
    drain = [Maintenance([worker])]
    if ends:
        assert perform(cluster, drain, until_whole=False) == [DONE]
    else:
        with pytest.raises(DeadlockError, match="cordoned"):
            perform(cluster, drain, until_whole=False)


def test_a_version_that_never_starts_holds_up_a_drain_until_it_is_taken_back() -> None:
    pool, objects = chat()
    cluster = running(Case([pool], objects, {}))
    (servers,) = deployments(cluster)
    servers.roll(broken=True)
    ticked(cluster)
    update = ManagedUpdate("chat", minimal=True)
    assert perform(cluster, [update], until_whole=False) == ["PodEvictionFailure"]
    assert cluster.worst["Deployment/chat"] == 2
    for node in cluster.nodes.values():
        node.is_cordoned = False
    servers.roll_back()
    assert perform(cluster, [ManagedUpdate("chat", minimal=True)]) == [DONE]


@pytest.mark.parametrize("shares", [True, False])
def test_servers_that_share_their_nodes_need_a_budget_of_their_places(shares: bool) -> None:
    """The servers of one model lie on two of four nodes, those of another on the rest."""
    pool = node_pool("chat", instance_type="g6e.48xlarge", node_count=4)
    made = [model_deployment(name, pool, SERVER, servers=16, shares_nodes=shares) for name in ("one", "two")]
    cluster = cluster_of([pool], made[0], packs=True)
    settle(cluster)
    later = cluster_of([pool], made[1])
    cluster.workloads += later.workloads
    cluster.budgets += later.budgets
    settle(cluster)
    drain = [Maintenance([next(node for node in cluster.nodes.values() if len(node.pods) == 8)])]
    if shares:
        assert perform(cluster, drain) == [DONE]
        assert max(cluster.worst.values()) == 8
    else:
        with pytest.raises(DeadlockError, match="Maintenance"):
            perform(cluster, drain)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(("boot", "start", "end"), [(5, 5, 4), (8, 4, 2), (3, 10, 1), (9, 3, 2)])
def test_updates_end_if_a_server_is_back_within_a_quarter_of_an_hour(
    boot: int, start: int, end: int, waits: bool
) -> None:
    """What the page states: end of a server, boot of a node and start of a server below 15 minutes in all."""
    pool, objects = chat()
    assert boot + start + end < 15
    cluster = running(Case([pool], objects, {}), minutes=Minutes(boot=boot, start=start, end=end))
    assert perform(cluster, [ManagedUpdate("chat", minimal=True, waits_for_nodes=waits)]) == [DONE]


@pytest.mark.parametrize(("boot", "start", "end"), [(5, 13, 1), (5, 2, 14)])
def test_slow_servers_end_an_update(boot: int, start: int, end: int) -> None:
    pool, objects = chat()
    cluster = running(Case([pool], objects, {}), minutes=Minutes(boot=boot, start=start, end=end))
    update = ManagedUpdate("chat", minimal=True, waits_for_nodes=False)
    assert perform(cluster, [update]) == ["PodEvictionFailure"]
    assert cluster.worst["Deployment/chat"] <= 2
