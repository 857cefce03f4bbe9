"""Queues of Kueue: quotas of what the nodes have, gangs that start together, and where in the network they start.

Sources: kubernetes-sigs/kueue v0.19.2, apis/kueue/v1beta2 and docs, "Topology Aware Scheduling" (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdk_gpu_clusters.catalogue.instances import topology_labels
from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for
from cdk_gpu_clusters.kubernetes.compute_domain import CLIQUE_LABEL, in_ultraservers
from cdk_gpu_clusters.kubernetes.gpu_pod import HUGE_PAGES_RESOURCE, placement
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    KubernetesObject,
    check_name,
    kubernetes_object,
)
from cdk_gpu_clusters.kubernetes.ray_head import RayHead
from cdk_gpu_clusters.kubernetes.team_quotas import QueueQuota, Team, check_teams, node_quota, team_resources

API = "kueue.x-k8s.io/v1beta2"
#: The label by which a job names its queue.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
#: Name of the queue of a namespace, where the user gives no other.
DEFAULT_QUEUE = "gpu-jobs"
CLUSTER_QUEUE = "gpu-cluster"
#: What the queues of teams, and of all others, lend to each other in.
COHORT = "gpu-cluster"
#: Flavor of nodes outside all groups, for heads of Ray.
_OUTSIDE = "ray-heads"
_HOST = "kubernetes.io/hostname"
#: Topology of nodes whose place in the network is not known.
_HOSTS = "hosts"
#: Topology of nodes in UltraServers.
_CLIQUES = "ultraservers"
_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
_UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"

POOLS = define_rule(
    "GPU-K8S-014",
    "a queue has 1 to 64 groups of nodes, each with nodes and a name of its own",
    source="kubernetes-sigs/kueue v0.19.2, apis/kueue/v1beta2/clusterqueue_types.go: flavors of a resource group",
)
LAYER = define_rule(
    "GPU-K8S-015",
    "a job asks for a layer of the network that the labels of its nodes tell",
    source="catalogue: network_topology.json",
)


def queues(
    pools: Sequence[NodePool],
    *,
    namespaces: Sequence[str] = (DEFAULT_NAMESPACE,),
    queue: str = DEFAULT_QUEUE,
    cluster_queue: str = CLUSTER_QUEUE,
    ray_heads: Sequence[RayHead] = (),
    teams: Sequence[Team] = (),
) -> list[KubernetesObject]:
    """One ClusterQueue with a flavor for each group of nodes, their topologies, and a LocalQueue for each namespace.

    With teams, each has a ClusterQueue of its own, all in one cohort with this one, which keeps what no team has.
    `kubernetes.teams.team_objects` makes their namespaces and LocalQueues.

    A job that asks for nodes of a group by `nodeSelector` gets that group's flavor. Groups whose nodes come for pods
    have no topology. Quotas are what the nodes leave to pods, times their number. They do not know of pods outside the
    queue, such as model servers; what these leave free Kueue counts by the topology.

    Args:
        pools: Groups of nodes.
        namespaces: Namespaces whose jobs may queue.
        queue: Name of the LocalQueues.
        cluster_queue: Name of the ClusterQueue.
        ray_heads: Heads of Ray that may run at once on nodes outside all groups, such as the system nodes. They have
            a flavor of their own, the last one: without it, Kueue has no place for such a head.
        teams: Teams with quotas of their own; none if left out. Kueue needs fair sharing for their weights:
            `cluster_software(..., fair_sharing=True)`.

    Raises:
        ConfigError: GPU-K8S-001, -014, GPU-TEAM-001 to -005.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=16)
        >>> [f"{one['kind']}/{one['metadata']['name']}" for one in queues([pool])]
        ['Topology/aws-network-3', 'ResourceFlavor/trainers', 'ClusterQueue/gpu-cluster', 'LocalQueue/gpu-jobs']
    """
    raise_for(
        [
            *check_pools(pools, _reserved(ray_heads)),
            *(one for pool in pools for one in check_name(pool.name, path=f"pools[{pool.name}]")),
            *(one for name in namespaces for one in check_name(name, path="namespaces")),
            *check_name(queue, path="queue"),
            *check_name(cluster_queue, path="cluster_queue"),
            *check_teams(teams, pools, cluster_queue=cluster_queue),
        ]
    )
    topologies = {
        topology_name(pool): _topology(topology_name(pool), _levels(pool)) for pool in pools if not pool.scales
    }
    outside = _heads_quota(ray_heads)
    if outside:
        topologies.setdefault(_HOSTS, _topology(_HOSTS, ()))
    return [
        *topologies.values(),
        *(_flavor(pool) for pool in pools),
        *([_outside_flavor()] if outside else []),
        _cluster_queue(cluster_queue, _shared(pools, teams), outside, {**_BY_PRIORITY, **_outside_teams(teams)}),
        *(_team_queue(team, pools, outside) for team in teams),
        *(local_queue(name, queue, cluster_queue) for name in namespaces),
    ]


def topology_name(pool: NodePool) -> str:
    """Name of the Topology of a group of nodes."""
    if in_ultraservers(pool):
        return _CLIQUES
    layers = len(_layers(pool))
    return f"aws-network-{layers}" if layers else _HOSTS


def topology_annotation(
    pool: NodePool, same_layer: int | None = None, *, same_ultraserver: bool = False
) -> dict[str, str]:
    """The annotation by which Kueue places the pods of a job near to each other.

    Args:
        pool: Group of their nodes.
        same_layer: Layer of the network, from 1 at the top, in which all nodes of the job must share a network node;
            None: as near as there is room.
        same_ultraserver: Whether all nodes of the job must reach each other by the NVLink of one UltraServer.

    Returns:
        The annotation; none for a group whose nodes come for pods: Kueue places pods on nodes that exist
        (kubernetes-sigs/kueue @ 8eab687, keps/2724-topology-aware-scheduling, non-goals).
    """
    if pool.scales:
        return {}
    if same_ultraserver:
        return {_REQUIRED: CLIQUE_LABEL}
    if same_layer is not None:
        return {_REQUIRED: _layers(pool)[same_layer - 1]}
    labels = _levels(pool)
    # Preferring the host, where no layer is known, would still fill nodes one by one.
    return {_PREFERRED: labels[-1] if labels else _HOST}


def anywhere_annotation(pool: NodePool | None, queue: str | None) -> dict[str, str]:
    """The annotation of pods that do not talk to each other, and run on any nodes of their flavor.

    Kueue implies it only in a queue whose flavors all have a topology, which those of groups that scale lack; without
    it no flavor with a topology takes the pods (kubernetes-sigs/kueue v0.19.2, pkg/scheduler/flavorassigner).

    Args:
        pool: Group of their nodes, None for nodes outside of all groups.
        queue: LocalQueue of the pods.

    Returns:
        The annotation; none without a queue, and for a group whose nodes come for pods.

    Example:
        >>> anywhere_annotation(None, "gpu-jobs")
        {'kueue.x-k8s.io/podset-unconstrained-topology': 'true'}
    """
    return {} if queue is None or (pool is not None and pool.scales) else {_UNCONSTRAINED: "true"}


@check
def check_layer(pool: NodePool, same_layer: int | None, queue: str | None) -> Iterator[Finding]:
    """Find a layer of the network that the labels of the nodes do not have, or that would have no effect.

    Args:
        pool: Group of the nodes.
        same_layer: The layer, None where none is asked for.
        queue: LocalQueue of Kueue, which places the pods.
    """
    count = len(_layers(pool))
    if same_layer is None or (queue is not None and 1 <= same_layer <= count):
        return
    if queue is None:
        yield LAYER.finding(
            cause="Kueue places pods in the network, and this job has no queue",
            got=f"same_layer {same_layer}, no queue",
            allowed="a queue, or no same_layer",
            fix="give queue, or leave same_layer out",
            path="same_layer",
        )
        return
    cause = f"nodes of {pool.instance_type.name} have no label for this layer"
    if pool.scales:
        cause = "Kueue places pods on nodes that exist, and those of this group come for pods"
    elif in_ultraservers(pool):
        cause = "these nodes are placed by their UltraServer alone, whose place in the layers of the network is unknown"
    yield LAYER.finding(
        cause=cause,
        got=str(same_layer),
        allowed=f"1 to {count}, or none" if count else "none: Kueue places them as it finds room",
        fix="leave it out",
        path="same_layer",
    )


def check_pools(pools: Sequence[NodePool], reserved: Sequence[str] = ()) -> list[Finding]:
    """Find groups of nodes of which no queue can be made.

    Args:
        pools: The groups.
        reserved: Names of further flavors.
    """
    names = [*(pool.name for pool in pools), *reserved]
    wrong = [] if pools and len(names) <= 64 else [f"{len(names)} groups"]
    wrong += [f"{name} twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    wrong += [f"{pool.name} with {pool.node_count} nodes" for pool in pools if pool.node_count < 1]
    return [
        POOLS.finding(
            cause="no queue can be made of these groups",
            got=got,
            allowed="1 to 64 groups with one node or more, each named once",
            fix="correct the groups",
            path="pools",
        )
        for got in wrong
    ]


def _layers(pool: NodePool) -> tuple[str, ...]:
    known = pool.network_topology and not pool.scales and not in_ultraservers(pool)
    return topology_labels(pool.instance_type) if known else ()


def _levels(pool: NodePool) -> tuple[str, ...]:
    """Labels of the levels above the host.

    Kueue takes a level to lie inside the one above: an UltraServer over two network nodes would be split. Whether there
    are such UltraServers is unknown, so that their nodes have this one level.
    """
    return (CLIQUE_LABEL,) if in_ultraservers(pool) else _layers(pool)


def _topology(name: str, layers: Sequence[str]) -> KubernetesObject:
    spec = {"levels": [{"nodeLabel": label} for label in (*layers, _HOST)]}
    return kubernetes_object(API, "Topology", name, spec, namespace=None)


def _flavor(pool: NodePool) -> KubernetesObject:
    where = placement(pool)
    spec = {
        "nodeLabels": where["nodeSelector"],
        "tolerations": where["tolerations"],
        **({} if pool.scales else {"topologyName": topology_name(pool)}),
    }
    return kubernetes_object(API, "ResourceFlavor", pool.name, spec, namespace=None)


def _reserved(ray_heads: Sequence[RayHead]) -> list[str]:
    return [_OUTSIDE] if _heads_quota(ray_heads) else []


def _heads_quota(ray_heads: Sequence[RayHead]) -> dict[str, str]:
    """What all heads outside of groups ask for."""
    heads = [head for head in ray_heads if head.pool is None]
    if not heads:
        return {}
    return {"cpu": str(sum(one.cpus for one in heads)), "memory": f"{sum(one.memory_gib for one in heads)}Gi"}


def _outside_flavor() -> KubernetesObject:
    # A flavor with a topology has a label, and queues whose flavors all have one place every pod by it. This label
    # is on every node: heads keep off the groups by their affinity, which Kueue compares with flavors and with nodes
    # (pkg/scheduler/flavorassigner, flavorSelector; pkg/cache/scheduler/tas_flavor_snapshot.go).
    spec = {"nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": _HOSTS}
    return kubernetes_object(API, "ResourceFlavor", _OUTSIDE, spec, namespace=None)


# Jobs of a higher priority class take the nodes of lower ones.
_BY_PRIORITY: Mapping[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}
# A team gets its own devices back from whoever borrowed them, whatever the priorities: otherwise each team would give
# its jobs the highest one.
_IN_COHORT: Mapping[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}}
#: By which a queue chooses namespaces (Kubernetes documentation, "Well-Known Labels").
_NAMESPACE = "kubernetes.io/metadata.name"
_UNITS = {"cpu": "m", "memory": "Mi", HUGE_PAGES_RESOURCE: "Mi"}
_Flavors = Mapping[str, Mapping[str, QueueQuota]]


def _cluster_queue(
    name: str, flavors: _Flavors, outside: Mapping[str, str], settings: Mapping[str, Any]
) -> KubernetesObject:
    # Every flavor of a group of resources has all of them, in one order: those that a group lacks are 0.
    covered = list(dict.fromkeys(resource for quotas in flavors.values() for resource in quotas))
    none = QueueQuota(nominal=0)
    spec = {
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        **settings,
        "resourceGroups": [
            {
                "coveredResources": covered,
                "flavors": [
                    *(
                        {"name": flavor, "resources": [_quota(one, quotas.get(one, none)) for one in covered]}
                        for flavor, quotas in flavors.items()
                    ),
                    *([_outside_quota(covered, outside)] if outside else []),
                ],
            }
        ],
    }
    return kubernetes_object(API, "ClusterQueue", name, spec, namespace=None)


def _shared(pools: Sequence[NodePool], teams: Sequence[Team]) -> _Flavors:
    """What no team has."""
    return {
        pool.name: {
            name: QueueQuota(nominal=each * pool.node_count - sum(had[name].nominal for had in taken))
            for name, each in node_quota(pool).items()
        }
        for pool in pools
        for taken in [[team_resources(team, pool) for team in teams if pool.resources]]
    }


def _outside_teams(teams: Sequence[Team]) -> dict[str, Any]:
    """Settings of the queue of all others, where there are teams."""
    if not teams:
        return {}
    names = [team.name for team in teams]
    others = {"matchExpressions": [{"key": _NAMESPACE, "operator": "NotIn", "values": names}]}
    return {"namespaceSelector": others, "cohortName": COHORT, **_IN_COHORT}


def _team_queue(team: Team, pools: Sequence[NodePool], outside: Mapping[str, str]) -> KubernetesObject:
    """The queue of a team: its quotas, and what all share, which it borrows from the queue of all others."""
    named = {one.pool for one in team.quotas}
    shared = QueueQuota(nominal=0)
    flavors = {
        pool.name: team_resources(team, pool) if pool.resources else dict.fromkeys(node_quota(pool), shared)
        for pool in pools
        if pool.name in named or not pool.resources
    }
    settings = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE: team.name}},
        "cohortName": COHORT,
        "fairSharing": {"weight": str(team.weight)},
        **_IN_COHORT,
    }
    return _cluster_queue(team.name, flavors, dict.fromkeys(outside, "0"), settings)


def _quota(resource: str, quota: QueueQuota) -> dict[str, Any]:
    limits = {"borrowingLimit": quota.borrowing_limit, "lendingLimit": quota.lending_limit}
    return {
        "name": resource,
        "nominalQuota": _quantity(resource, quota.nominal),
        **{name: _quantity(resource, value) for name, value in limits.items() if value is not None},
    }


def _quantity(resource: str, number: int) -> str:
    return f"{number}{_UNITS.get(resource, '')}" if number else "0"


def _outside_quota(covered: Sequence[str], outside: Mapping[str, str]) -> dict[str, Any]:
    quotas = [{"name": resource, "nominalQuota": outside.get(resource, "0")} for resource in covered]
    return {"name": _OUTSIDE, "resources": quotas}


def local_queue(namespace: str, name: str, cluster_queue: str) -> KubernetesObject:
    """The queue that jobs of a namespace name."""
    spec = {"clusterQueue": cluster_queue}
    return kubernetes_object(API, "LocalQueue", name, spec, namespace=namespace)
