"""What changes in the stack of a fleet that is a node group of EKS, and in the stack of the cluster itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cdk_gpu_clusters_stacks.manifests.software import kubernetes_version
from cdk_gpu_clusters_stacks.spec.capacity import capacity_terms
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork

from ._compare import Made, Words, compare
from ._fleet_changes import (
    LAUNCH_TEMPLATE,
    PLACEMENT_GROUP,
    PLACEMENT_WORDS,
    STATE_MACHINE,
    alarm_changes,
    security_group_changes,
)
from ._sides import (
    SCHEMA,
    Side,
    block_of,
    bought,
    own_placement,
    script_of,
    subnets_of,
    tags_of,
    told_of_store,
)
from .change_model import Change, Effect

NODE_GROUP = "AWS::EKS::Nodegroup"
CLUSTER = "AWS::EKS::Cluster"

_ROLLING = "EKS replaces running nodes one at a time, and drains each (update: rolling)"
_NEVER = (
    "running nodes stay as they are, and so do those that are launched later: the group stays on the version of "
    "the template that it was made with (update: never)"
)
_ANOTHER = (
    "another group is made, since EKS changes none of these in place; its nodes come before the old ones go, and a "
    "reservation needs room for both"
)


def node_group_changes(before: Side, after: Side) -> Iterator[Change]:
    """What changes in the stack of a node group."""
    stack, key = after.plan.stack_name, after.key
    hardware = _hardware(before), _hardware(after)
    if hardware[0] == hardware[1]:
        yield from _template_changes(before, after)
        yield from compare(
            stack,
            NODE_GROUP,
            (_group(before), _group(after)),
            _group_words(after),
            replacing=frozenset(["network", "eks.existing.cluster_name"]),
        )
    else:
        keys = compare(stack, NODE_GROUP, hardware, Words())[0].keys
        for resource in (LAUNCH_TEMPLATE, NODE_GROUP):
            yield _whole(stack, resource, Effect.REMOVED, keys, "it goes when the other one is there")
            yield _whole(stack, resource, Effect.ADDED, keys, _ANOTHER)
    yield from compare(
        stack,
        PLACEMENT_GROUP,
        (own_placement(before), own_placement(after)),
        PLACEMENT_WORDS,
        replacing=frozenset([f"{key}.placement"]),
    )
    yield from compare(
        stack,
        STATE_MACHINE,
        (block_of(before), block_of(after)),
        Words(
            updated="what sizes the group when the block is delivered follows the new start, end or size",
            added="the group is sized when its block is delivered",
            removed="nothing sizes the group when a block is delivered any more",
        ),
    )
    yield from security_group_changes(before, after)
    yield from alarm_changes(before, after)


def _whole(stack: str, resource: str, effect: Effect, keys: tuple[str, ...], words: str) -> Change:
    return Change(
        stack=stack,
        resource=resource,
        effect=effect,
        keys=keys,
        words=words,
        source=SCHEMA.format(NODE_GROUP),
    )


def _hardware(side: Side) -> Made:
    """What a node group is known by: with another type, capacity, interfaces or placement it is another group."""
    terms, plan = capacity_terms(side.view.spec.capacity), side.plan
    own, placement = own_placement(side), plan.placement
    return {
        f"{side.key}.instance_type": plan.node.instance_type,
        f"{side.key}.capacity": (
            terms.kind,
            terms.reservation_id,
            terms.reservation_group_arn,
            terms.uses_open_reservations,
        ),
        f"{side.key}.interface_policy": plan.node.network.policy,
        f"{side.key}.efa": plan.node.network.efa_interface_count,
        f"{side.key}.placement": (own and placement.strategy, own is None and placement.strategy is not None),
    }


def _template_changes(before: Side, after: Side) -> Iterator[Change]:
    yield from compare(
        after.plan.stack_name,
        LAUNCH_TEMPLATE,
        (_template(before), _template(after)),
        Words(
            updated="a new version of the template",
            nodes=_ROLLING if after.view.spec.update == "rolling" else _NEVER,
            source="EC2 API, CreateLaunchTemplateVersion; Amazon EKS user guide, customize managed nodes",
        ),
    )


def _template(side: Side) -> Made:
    """What the launch template of a node group is made from."""
    spec, plan, key = side.view.spec, side.plan, side.key
    made: dict[str, Any] = {
        "capacity": (bought(side), plan.capacity.drains_at),
        "placement": (plan.placement.strategy, plan.placement.group_name, plan.placement.is_made_here),
        "root_volume": plan.node.root_volume,
        "efa": plan.node.network.efa_interface_count > 0,
        "interface_policy": plan.node.network.policy,
        "fabric": plan.fabric,
        "mig": None if side.view.mig is None else side.view.mig.partition,
        "fabric_manager_order": None if side.view.mig is None else spec.fabric_manager_order,
        "mounts": [(mount, told_of_store(side.cluster, mount.store)) for mount in plan.mounts],
        "checkpoints": None if plan.checkpoints is None else told_of_store(side.cluster, plan.checkpoints),
        "scratch": plan.node.local_disks,
        "watch": spec.watch,
        "evidence_bucket": spec.evidence_bucket,
    }
    if isinstance(spec, FleetSpec):
        made |= {"environment": spec.environment, "user_data": script_of(spec)}
    existing = side.cluster.eks.existing
    return {
        **{f"{key}.{name}": value for name, value in made.items()},
        "eks.existing": None if existing is None else existing.cluster_security_group_id,
        "eks.kubectl": side.cluster.eks.kubectl.of(spec.instance_type),
        **tags_of(side),
    }


def _group(side: Side) -> Made:
    """What a node group is made from, beside its type and its capacity."""
    spec, group, existing = side.view.spec, side.plan.node_group, side.cluster.eks.existing
    rolls = spec.update == "rolling"
    made: dict[str, Any] = {
        "nodes": (spec.minimum_nodes, spec.maximum_nodes),
        "update": rolls,
        "mig": group and group.mig_strategy,
        "efa": group and group.labels,
    }
    return {
        **{f"{side.key}.{name}": value for name, value in made.items()},
        "eks.kubernetes_version": kubernetes_version(side.cluster) if rolls else None,
        "eks.existing.cluster_name": existing and existing.cluster_name,
        **subnets_of(side, side.plan.subnets),
        **tags_of(side),
    }


def _group_words(after: Side) -> Words:
    nodes = "EKS launches or drains nodes to reach the new size; a deployment sets no size where others do"
    return Words(
        updated="the node group changes in place",
        replaced="another group is made in the other place, and the old one goes with its nodes",
        nodes=nodes if after.plan.node_group and after.plan.node_group.desired_nodes is not None else "",
        source="Amazon EKS API, UpdateNodegroupConfig; " + SCHEMA.format(NODE_GROUP),
    )


def kubernetes_changes(stack: str, before: ClusterSpec, after: ClusterSpec) -> Iterator[Change]:
    """What changes in the stack of a cluster that both files make."""
    sides = before, after
    yield from compare(
        stack,
        CLUSTER,
        ({"eks.public_access_cidrs": one.eks.public_access_cidrs, **_of_cluster(one)} for one in sides),
        Words(
            updated="the cluster changes in place; EKS updates one minor version at a time, and no way leads back",
            nodes="nodes go on running",
            source="Amazon EKS API, UpdateClusterVersion and UpdateClusterConfig; " + SCHEMA.format(CLUSTER),
        ),
    )
    nodes = [one.eks.system_nodes for one in sides]
    yield from compare(
        stack,
        NODE_GROUP,
        (
            {"eks.system_nodes.nodes": own.nodes, "tags": one.tags, **_of_cluster(one)}
            for one, own in zip(sides, nodes, strict=True)
        ),
        Words(
            updated="the group of the system nodes changes in place",
            replaced="other system nodes are made, then the old ones go; the cluster's own pods move",
            source=SCHEMA.format(NODE_GROUP),
        ),
        replacing=frozenset(["network"]),
    )
    yield from compare(
        stack,
        LAUNCH_TEMPLATE,
        (
            {"eks.system_nodes.instance_type": own.instance_type, "tags": one.tags}
            for one, own in zip(sides, nodes, strict=True)
        ),
        Words(
            updated="a new version of the template of the system nodes",
            nodes="EKS replaces the system nodes one at a time, and drains each",
            source="Amazon EKS user guide, customize managed nodes",
        ),
    )
    yield from compare(
        stack,
        "AWS::EKS::AccessEntry",
        ({"eks.admin_principal_arns": one.eks.admin_principal_arns} for one in sides),
        Words(updated="who administers the cluster comes and goes by access entries"),
    )


def _of_cluster(cluster: ClusterSpec) -> Made:
    """What control plane and system nodes are made from, both."""
    network = cluster.network
    subnets = network.service_subnets if isinstance(network, ExistingNetwork) else {}
    return {
        "eks.kubernetes_version": kubernetes_version(cluster),
        "network": tuple(subnets.items()),
    }
