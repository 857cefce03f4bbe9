"""Pods that updates take away: EKS evicts them as their disruption budgets allow, a rollout replaces them.

EKS drains a node by evictions, and gives up with PodEvictionFailure after 15 minutes. A budget allows as many evictions
as pods are healthy beyond the wanted number. A pod that is evicted is healthy again only where a node has devices for
it: on nodes that are full it stays pending, and the budget stays used up.

A rollout of a Deployment takes as many pods at once as may be unavailable, of those that its autoscaler left. The
number is absolute, or a share that is rounded down; it is one if nothing could change otherwise. A canary of a Rollout
takes as many.

Sources: Amazon EKS user guide, "Understand each phase of node updates" (drain, 15 minutes); Kubernetes documentation,
"Specifying a Disruption Budget for your Application" and "Deployments", "Max Unavailable"; kubernetes/kubernetes,
`GetExpectedPodCount` of the disruption controller (percentages are rounded up) and `ResolveFenceposts` of the
deployment controller; argoproj/argo-rollouts v1.9.0, `resolveFenceposts`. Manifests are those that the stacks of the
cluster apply; pods that need no devices of the node are taken to fit elsewhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters.catalogue import instance_types

from ..faults import Fault
from ..world import Json, World

_OBJECTS = "Custom::AWSCDK-EKS-KubernetesResource"
_SERVERS = {"Deployment", "Rollout"}
_DEVICES = ("nvidia.com/gpu", "aws.amazon.com/neuron")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Pods of a Deployment or a Rollout that need devices, and how many of them must stay healthy."""

    name: str
    replicas: int
    devices: int
    wanted: int


def eviction_faults(world: World, node_group: Json, instance_type: str, nodes: int) -> Iterator[Fault]:
    """Faults of an update that ends nodes before it launches others, of a group with so many nodes."""
    known = instance_types().get(instance_type)
    accelerator = known.accelerator if known is not None else None
    if accelerator is None or nodes == 0:
        return
    out = _unavailable(node_group.get("UpdateConfig", {}), nodes)
    for one in _workloads(world, node_group):
        each = accelerator.count // one.devices
        on_nodes = min(one.replicas, out * each)
        room = max(0, (nodes - out) * each - (one.replicas - on_nodes))
        allowed = max(0, min(one.replicas, nodes * each) - one.wanted)
        if on_nodes > (allowed + room if allowed else 0):
            message = (
                f"PodEvictionFailure: Reached max retries while trying to evict pods from nodes: {one.name} has "
                f"{on_nodes} pods on {out} nodes, its budget allows {allowed} evictions, and other nodes have room for "
                f"{room}"
            )
            yield Fault("node-group-eviction", message, "UpdateConfig")


def outages(old: list[Json], new: list[Json]) -> list[tuple[str, str]]:
    """Kinds and names of what runs servers and loses every pod at once in a rollout, with the fewest of them."""
    before = {one["metadata"]["name"]: one for one in old if one["kind"] in _SERVERS}
    return [
        (one["kind"], one["metadata"]["name"])
        for one in new
        if one["kind"] in _SERVERS
        and before.get(one["metadata"]["name"], one)["spec"]["template"] != one["spec"]["template"]
        and _taken(one["spec"], _replicas(one, new)) >= _replicas(one, new)
    ]


def _taken(spec: Json, replicas: int) -> int:
    """Pods that a rollout takes at once."""
    strategy = spec.get("strategy", {})
    if strategy.get("type") == "Recreate":
        return replicas
    rolling = strategy.get("canary", strategy.get("rollingUpdate", {}))
    taken = _scaled(rolling.get("maxUnavailable", "25%"), replicas, rounded_up=False)
    return taken or int(_scaled(rolling.get("maxSurge", "25%"), replicas) == 0)


def _unavailable(update: Json, nodes: int) -> int:
    """Nodes that an update takes at once; one, if it does not say."""
    share = update.get("MaxUnavailablePercentage")
    return min(nodes, math.ceil(nodes * share / 100) if share else int(update.get("MaxUnavailable", 1)))


def _workloads(world: World, node_group: Json) -> Iterator[Workload]:
    objects = list(_objects(world, node_group["ClusterName"]))
    for one in objects:
        if one["kind"] not in _SERVERS:
            continue
        pod = one["spec"]["template"]
        if not pod["spec"].get("nodeSelector", {}).items() <= node_group.get("Labels", {}).items():
            continue
        limits = [part.get("resources", {}).get("limits", {}) for part in pod["spec"]["containers"]]
        devices = sum(int(limit.get(name, 0)) for limit in limits for name in _DEVICES)
        if devices:
            name, replicas = one["metadata"]["name"], _replicas(one, objects)
            wanted = _wanted(pod["metadata"].get("labels", {}), replicas, objects)
            yield Workload(name=name, replicas=replicas, devices=devices, wanted=wanted)


def _objects(world: World, cluster: str) -> Iterator[Json]:
    for applied in world.of_type(_OBJECTS):
        if applied.properties.get("ClusterName") == cluster:
            yield from json.loads(applied.properties["Manifest"])


def _replicas(deployment: Json, objects: list[Json]) -> int:
    """The size of a Deployment; the least of its autoscaler, if it has one."""
    for one in objects:
        if one["kind"] == "HorizontalPodAutoscaler":
            target = one["spec"]["scaleTargetRef"]
            if (target["kind"], target["name"]) == (deployment["kind"], deployment["metadata"]["name"]):
                return int(one["spec"].get("minReplicas", 1))
    return int(deployment["spec"].get("replicas", 1))


def _wanted(labels: Json, replicas: int, objects: list[Json]) -> int:
    """How many pods with these labels must stay healthy, by the strictest budget; none without one."""
    budgets = [
        one["spec"]
        for one in objects
        if one["kind"] == "PodDisruptionBudget"
        and one["spec"].get("selector", {}).get("matchLabels", {}).items() <= labels.items()
    ]
    return max((_kept(budget, replicas) for budget in budgets), default=0)


def _kept(budget: Json, replicas: int) -> int:
    if "minAvailable" in budget:
        return _scaled(budget["minAvailable"], replicas)
    return max(0, replicas - _scaled(budget.get("maxUnavailable", 0), replicas))


def _scaled(value: Any, replicas: int, *, rounded_up: bool = True) -> int:
    text = str(value)
    if not text.endswith("%"):
        return int(text)
    share = replicas * int(text[:-1]) / 100
    return math.ceil(share) if rounded_up else math.floor(share)
