"""What is decided about a node group of Amazon EKS beyond what is decided about every fleet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._cdk import known, path_of
from cdk_gpu_clusters.catalogue.network_topology import has_topology
from cdk_gpu_clusters.compute.fleet_mounts import MountableFileSystem
from cdk_gpu_clusters.compute.fleet_plan import FleetPlan
from cdk_gpu_clusters.compute.node_plan import (
    BLOCK_DRAIN_SECONDS,
    SPOT_DRAIN_SECONDS,
    NodePlan,
    NodeWish,
    boot_deadline_seconds,
)
from cdk_gpu_clusters.compute.node_settings import WrittenNode, write_node
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.kubernetes.node_pool import LustreVolume, NodePool, node_pool
from cdk_gpu_clusters.node.kubernetes_node import NodeConfig, check_kubelet, check_labels
from cdk_gpu_clusters.rules.capacity import block_window
from cdk_gpu_clusters.rules.interfaces import Orchestrator
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL, NodeTaint
from cdk_gpu_clusters.rules.mig_strategy import MigStrategy, check_strategy
from cdk_gpu_clusters.rules.node_group import (
    NodeRepair,
    check_block_of_group,
    check_group_labels,
    check_group_taints,
    check_release,
    check_repair,
    check_updates,
    choose_ami_type,
    max_pods,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupWish:
    """What is said about a node group over and above a fleet: by the user, its cluster and its id."""

    name: str
    kubernetes_version: str
    mig_strategy: MigStrategy | None
    labels: Mapping[str, str]
    taints: Sequence[NodeTaint] | None
    kubelet_config: Mapping[str, Any]
    prefix_delegation: bool
    release_version: str | None
    max_unavailable: int
    repair: NodeRepair


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupPlan:
    """What was decided.

    Attributes:
        ami_type: Which image EKS chooses.
        pool: The group as manifests know it.
        kubelet_config: What kubelet is told: the number of pods, and the user's word.
        hardware: A key that changes with the type of the nodes, how they are bought, their network interfaces and
            their placement, and with nothing else.
    """

    ami_type: str
    pool: NodePool
    kubelet_config: Mapping[str, Any]
    hardware: str


def check_node_group(plan: FleetPlan, wish: NodeGroupWish) -> list[Finding]:
    """Find what is wrong with a node group beyond what can be wrong with every fleet.

    Args:
        plan: What was decided about it as about every fleet.
        wish: What the user says.
    """
    taints = wish.taints or ()
    return [
        *choose_ami_type(plan.instance_type)[1],
        *check_block_of_group(plan.capacity.terms),
        *check_strategy(plan.mig, wish.mig_strategy),
        *check_labels(
            {FLEET_LABEL: wish.name, **wish.labels}, [f"{one.key}={one.value}:{one.effect}" for one in taints]
        ),
        *check_group_labels(wish.labels),
        *check_group_taints(taints),
        *check_kubelet(wish.kubelet_config),
        *check_updates(wish.max_unavailable, plan.maximum),
        *check_repair(wish.repair),
        *check_release(known(wish.release_version), known(wish.kubernetes_version)),
    ]


def plan_node_group(
    plan: FleetPlan, wish: NodeGroupWish, mounts: Mapping[str, MountableFileSystem], region: str | None
) -> NodeGroupPlan:
    """Decide what a node group is made of, of which `check_node_group` found nothing wrong.

    Args:
        plan: What was decided about it as about every fleet.
        wish: What the user says.
        mounts: File systems by mount point.
        region: Its Region; None where only the deployment knows it.
    """
    row, _ = choose_ami_type(plan.instance_type)
    pods = max_pods(plan.instance_type, plan.interfaces, prefix_delegation=wish.prefix_delegation)
    return NodeGroupPlan(
        ami_type="" if row is None else row.ami_type,
        pool=node_pool(
            wish.labels.get(FLEET_LABEL, wish.name),
            instance_type=plan.instance_type,
            node_count=plan.maximum,
            efa=plan.efa,
            interface_policy=plan.interfaces.policy,
            mig=plan.mig,
            mig_strategy=wish.mig_strategy,
            labels=wish.labels,
            taints=wish.taints,
            mounts=_volumes(mounts),
            network_topology=region is None or has_topology(region),
        ),
        kubelet_config={"maxPods": pods, **wish.kubelet_config},
        hardware=_hardware(plan),
    )


def write_eks_node(
    scope: Construct, plan: FleetPlan, group: NodeGroupPlan, wish: NodeWish, *, log_group: logs.ILogGroup
) -> WrittenNode:
    """The user data of the nodes, and the asset that holds the files that can wait for the network.

    Args:
        scope: The node group; its path names it for people.
        plan: What was decided about it as about every fleet.
        group: What was decided about it as a node group.
        wish: What the user says about its nodes; its node configuration is added here.
        log_group: Where the nodes log.

    Raises:
        ConfigError: GPU-UD-003 and -005 to -008, GPU-MNT-001 to -003.
    """
    window = block_window(plan.capacity.terms)
    config = NodeConfig(kubelet_config=group.kubelet_config)
    node = NodePlan(
        name=path_of(scope),
        instance_type=plan.instance_type,
        orchestrator=Orchestrator.EKS_MANAGED,
        efa_count=plan.interfaces.efa_count,
        fleet_size=plan.maximum,
        mig=plan.mig,
        boot_deadline_seconds=boot_deadline_seconds(plan.ready_timeout_seconds),
        drain_deadline_seconds=SPOT_DRAIN_SECONDS if window is None else BLOCK_DRAIN_SECONDS,
        drain_at=None if window is None else window.drain_at,
    )
    return write_node(scope, node, replace(wish, node_config=config), log_group=log_group)


def _hardware(plan: FleetPlan) -> str:
    """A digest of what a group keeps for its life, and of what another template of it would no longer name."""
    terms, given = plan.capacity.known_terms, plan.placement_group
    said = (
        plan.instance_type.name,
        terms.kind.value,
        terms.reservation_id,
        terms.reservation_group_arn,
        terms.uses_open_reservations,
        plan.interfaces.policy.value,
        plan.interfaces.efa_count,
        None if plan.new_placement is None else plan.new_placement.value,
        None if given is None else path_of(given),
    )
    return hashlib.sha256(repr(said).encode()).hexdigest()[:8]


def _volumes(mounts: Mapping[str, MountableFileSystem]) -> dict[str, LustreVolume]:
    """File systems as pods mount them, as far as they know their own id; each is one volume, at however many points."""
    volumes: dict[MountableFileSystem, LustreVolume] = {}
    for point, store in mounts.items():
        if hasattr(store, "file_system_id") and store not in volumes:
            volumes[store] = LustreVolume(
                name=point.strip("/").replace("/", "-"),
                file_system_id=store.file_system_id,
                dns_name=store.dns_name,
                mount_name=store.mount_name,
            )
    return {point: volumes[store] for point, store in mounts.items() if store in volumes}
