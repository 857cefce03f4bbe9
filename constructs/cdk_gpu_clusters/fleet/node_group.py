"""What Amazon EKS adds to a fleet: the plan of a managed node group."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdk_gpu_clusters.catalogue.instances import has_topology
from cdk_gpu_clusters.errors import Finding, errors_in
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.kubernetes.node_pool import NodePool, SharedVolume, planned_pool
from cdk_gpu_clusters.node.kubernetes_node import NodeConfig, check_kubelet, check_labels
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL, NodeTaint
from cdk_gpu_clusters.rules.mig import MigStrategy, check_strategy
from cdk_gpu_clusters.rules.node_group import (
    NodeRepair,
    UpdateStrategy,
    check_block_of_group,
    check_group_labels,
    check_group_taints,
    check_release,
    check_repair,
    check_replacement,
    check_updates,
    choose_ami_type,
    desired_size,
    drained_percent,
    grace_period_seconds,
    max_pods,
    surge_nodes,
    update_strategy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupRequest:
    """What is requested of a node group, beyond a fleet. None is a value that is left open or unknown.

    Attributes:
        name: Its name for pods, unless a label sets another.
        kubernetes_version: Version of the cluster.
        mig_strategy: How the device plugin shows split GPUs.
        labels: Further labels of the nodes.
        taints: Taints of the nodes.
        kubelet_config: Fields of a `KubeletConfiguration`.
        prefix_delegation: Whether the VPC CNI gives nodes prefixes.
        release_version: Release of EKS's image.
        max_unavailable: Nodes that an update replaces at once.
        rolls: Whether a deployment with another launch template or version of Kubernetes updates the nodes.
        update_strategy: How EKS replaces nodes.
        repair: How EKS repairs nodes.
        mounts: File systems of the pods, by mount point.
        hardware_group: What names an existing placement group, for the key of the hardware.
    """

    name: str
    kubernetes_version: str | None = None
    mig_strategy: MigStrategy | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[NodeTaint] | None = None
    kubelet_config: Mapping[str, Any] = field(default_factory=dict)
    prefix_delegation: bool = False
    release_version: str | None = None
    max_unavailable: int = 1
    rolls: bool = False
    update_strategy: UpdateStrategy | None = None
    repair: NodeRepair = field(default_factory=NodeRepair)
    mounts: Mapping[str, SharedVolume] = field(default_factory=dict)
    hardware_group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupPlan:
    """What was decided about a node group.

    Attributes:
        request: What was requested.
        ami_type: Which image EKS chooses; empty if it has none.
        pool: The group as manifests see it.
        max_pods: Pods of a node.
        desired_size: Size that a deployment sets.
        update_strategy: How EKS replaces nodes in an update.
        surge_nodes: How many nodes an update adds for the time that it takes.
        hardware: A key that changes with the type of the nodes, how they are bought, their network interfaces and
            their placement, and with nothing else.
        findings: What is wrong with the group, beyond the fleet.
    """

    request: NodeGroupRequest
    ami_type: str
    pool: NodePool
    max_pods: int
    desired_size: int
    update_strategy: UpdateStrategy
    surge_nodes: int
    hardware: str
    findings: tuple[Finding, ...]

    @property
    def node_config(self) -> NodeConfig:
        """How nodeadm sets a node up: the number of pods, and the requested fields of kubelet."""
        return NodeConfig(kubelet_config={"maxPods": self.max_pods, **self.request.kubelet_config})


def plan_node_group(fleet: FleetPlan, request: NodeGroupRequest) -> NodeGroupPlan:
    """Decide what a node group is made of.

    Args:
        fleet: The plan of its fleet, with a known type and a layout of interfaces.
        request: What is requested of it.

    Raises:
        ConfigError: The findings of the fleet, if its type or its interfaces are not known.
    """
    record = fleet.instance_type
    strategy = request.update_strategy or update_strategy(fleet.decision, record)
    row, about_image = choose_ami_type(record)
    about_strategy = check_strategy(fleet.mig, request.mig_strategy)
    region = fleet.request.region
    pool = planned_pool(
        request.labels.get(FLEET_LABEL, request.name),
        instance_type=record,
        node_count=fleet.maximum,
        efa_count=fleet.interfaces.efa_count,
        mig=fleet.mig,
        mig_strategy=None if errors_in(about_strategy) else request.mig_strategy,
        labels=request.labels,
        taints=request.taints,
        mounts=request.mounts,
        network_topology=region is None or has_topology(region),
        drained=drained_percent(
            strategy,
            minimum=fleet.fewest,
            maximum=fleet.maximum,
            max_unavailable=max(1, request.max_unavailable),
        ),
        grace_period_seconds=grace_period_seconds(fleet.decision),
    )
    return NodeGroupPlan(
        request=request,
        ami_type="" if row is None else row.ami_type,
        pool=pool,
        max_pods=max_pods(record, fleet.interfaces, prefix_delegation=request.prefix_delegation),
        desired_size=desired_size(keeps_size=fleet.keeps_size, minimum=fleet.minimum, maximum=fleet.maximum),
        update_strategy=strategy,
        surge_nodes=surge_nodes(strategy, zones=_zone_count(fleet), max_unavailable=request.max_unavailable),
        hardware=_hardware(fleet, request),
        findings=(*about_image, *about_strategy, *_check(fleet, request)),
    )


def _check(fleet: FleetPlan, request: NodeGroupRequest) -> list[Finding]:
    taints = request.taints or ()
    return [
        *check_block_of_group(fleet.terms, keeps_size=fleet.keeps_size),
        *check_labels(
            {FLEET_LABEL: request.name, **request.labels},
            [f"{one.key}={one.value}:{one.effect}" for one in taints],
        ),
        *check_group_labels(request.labels),
        *check_group_taints(taints),
        *check_kubelet(request.kubelet_config),
        *check_updates(request.max_unavailable, fleet.maximum),
        *check_replacement(fleet.terms, request.update_strategy, rolls=request.rolls),
        *check_repair(request.repair),
        *check_release(request.release_version, request.kubernetes_version),
    ]


def _zone_count(fleet: FleetPlan) -> int:
    """Zones of the nodes; each subnet of an unknown zone is taken for another one."""
    subnets = fleet.request.subnets
    return len({one.zone or index for index, one in enumerate(subnets)}) or 1


def _hardware(fleet: FleetPlan, request: NodeGroupRequest) -> str:
    """A digest of what a group keeps for its life, and of what another template of it would no longer name."""
    terms = fleet.terms
    parts = (
        fleet.instance_type.name,
        terms.kind.value,
        terms.reservation_id,
        terms.reservation_group_arn,
        terms.uses_open_reservations,
        fleet.interfaces.policy.value,
        fleet.interfaces.efa_count,
        None if fleet.new_placement is None else fleet.new_placement.value,
        request.hardware_group,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]
