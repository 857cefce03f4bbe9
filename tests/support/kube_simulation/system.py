"""System nodes with the pods of the cluster's own: two nodes in two zones, as a cluster file makes them.

What a node leaves to pods, and what the pods ask for, is in `rules.eks_cluster` and in the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdk_gpu_clusters.catalogue.kubernetes import all_system_pods
from cdk_gpu_clusters.kubernetes.node_pool import node_pool
from cdk_gpu_clusters.rules.eks_cluster import SYSTEM_INSTANCE_TYPE, SYSTEM_NODE_COUNT, system_room
from kube_simulation.cluster import Cluster
from kube_simulation.workloads import Deployment

SYSTEM = "system"
ZONES = ("a", "b")
Manifest = Mapping[str, Any]


def add_system_nodes(
    cluster: Cluster,
    *,
    instance_type: str = SYSTEM_INSTANCE_TYPE,
    node_count: int = SYSTEM_NODE_COUNT,
    more: Sequence[Manifest] = (),
) -> None:
    """System nodes with the pods of the add-ons and of all charts that are always there.

    Args:
        cluster: The cluster, before anything runs there.
        instance_type: Type of the nodes.
        node_count: How many there are.
        more: Deployments of other charts.
    """
    pool = node_pool(SYSTEM, instance_type=instance_type, node_count=node_count)
    room = system_room(pool.instance_type)
    cluster.add_pool(
        replace(pool, labels={"kubernetes.io/os": "linux"}, taints=()),
        room={"cpu": room["millicores of CPU"], "memory": room["MiB of memory"]},
        zones=ZONES,
    )
    rows = [one for one in all_system_pods() if one.replicas is not None]
    own = [deployment(one.name, one.cpu_millicores, one.memory_mib, one.replicas or 0) for one in rows]
    cluster.workloads[:0] = [Deployment(one) for one in [*own, *more]]


def deployment(name: str, millicores: int, memory_mib: int, replicas: int = 1) -> dict[str, Any]:
    """A Deployment with the strategy that Kubernetes gives it."""
    requests = {"cpu": f"{millicores}m", "memory": f"{memory_mib}Mi"}
    container = {"name": name, "image": name, "resources": {"requests": requests}}
    return {
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }
