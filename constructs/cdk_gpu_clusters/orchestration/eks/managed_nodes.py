"""The managed node group, as the resource that CloudFormation takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.fleet.node_group import NodeGroupPlan
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.rules.kubernetes_labels import NodeTaint
from cdk_gpu_clusters.rules.node_group import CAPACITY_TYPES, RepairOverride

_EFFECTS = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedNodes:
    """The decided properties of a node group; ids may be tokens.

    Attributes:
        cluster_name: The cluster.
        role_arn: Role of the nodes.
        subnet_ids: Where they stand.
        template: Their launch template, which names their type.
        plan: What was decided about them as about every fleet.
        group: What was decided about them as a node group.
        kubernetes_version: Version of the cluster, or a token for it.
        release_version: Release of EKS's image, or a token for it; None if EKS chooses.
        update_policy: What a new template version, or version of Kubernetes, does to running nodes.
        needs: What has to be there for a node's first boot.
    """

    cluster_name: str
    role_arn: str
    subnet_ids: Sequence[str]
    template: ec2.CfnLaunchTemplate
    plan: FleetPlan
    group: NodeGroupPlan
    kubernetes_version: str
    release_version: str | None
    update_policy: UpdatePolicy
    needs: Sequence[IDependable]


def managed_nodes(scope: Construct, construct_id: str, nodes: ManagedNodes) -> eks.CfnNodegroup:
    """Define the node group.

    It has no name of its own, no disk size, no remote access and no instance types: the name and the types change only
    with the entire group, and EKS takes the others from the launch template.

    EKS keeps every node of a group on one version of the template, and replaces all when it changes. So a group whose
    nodes are never replaced stays on the default version, which CloudFormation leaves alone (AWS::EC2::LaunchTemplate
    reference, DefaultVersionNumber), and on the Kubernetes version that the cluster had when the group was made.
    """
    rolls = nodes.update_policy is UpdatePolicy.ROLLING
    template, group = nodes.template, nodes.group
    # Dictionaries in camel case, which CDK passes on as given.
    made = eks.CfnNodegroup(
        scope,
        construct_id,
        cluster_name=nodes.cluster_name,
        node_role=nodes.role_arn,
        subnets=list(nodes.subnet_ids),
        ami_type=group.ami_type,
        capacity_type=CAPACITY_TYPES[nodes.plan.terms.kind].value,
        launch_template={
            "id": template.ref,
            "version": template.attr_latest_version_number if rolls else template.attr_default_version_number,
        },
        version=nodes.kubernetes_version if rolls else None,
        release_version=nodes.release_version,
        scaling_config=_scaling(nodes),
        update_config={
            "maxUnavailable": group.request.max_unavailable,
            "updateStrategy": group.update_strategy.value,
        },
        node_repair_config=_repair(nodes),
        labels=dict(group.pool.labels),
        taints=[_taint(taint) for taint in group.pool.taints] or None,
    )
    made.node.add_dependency(*nodes.needs)
    scope.node.default_child = made
    return made


def _scaling(nodes: ManagedNodes) -> dict[str, int]:
    sizes = {"minSize": nodes.plan.minimum, "maxSize": nodes.plan.maximum}
    desired = nodes.group.desired_size
    return sizes if desired is None else {**sizes, "desiredSize": desired}


def _repair(nodes: ManagedNodes) -> dict[str, Any]:
    repair = nodes.group.request.repair
    if not repair.enabled:
        return {"enabled": False}
    limits = {
        "maxUnhealthyNodeThresholdPercentage": repair.max_unhealthy_percentage,
        "maxParallelNodesRepairedCount": repair.max_parallel_count,
    }
    overrides = [_override(one) for one in repair.overrides_for(nodes.plan.instance_type)]
    return {
        "enabled": True,
        **{name: value for name, value in limits.items() if value is not None},
        **({"nodeRepairConfigOverrides": overrides} if overrides else {}),
    }


def _override(one: RepairOverride) -> dict[str, Any]:
    return {
        "nodeMonitoringCondition": one.condition,
        "nodeUnhealthyReason": one.reason,
        "minRepairWaitTimeMins": one.wait_minutes,
        "repairAction": one.action.value,
    }


def _taint(taint: NodeTaint) -> dict[str, str]:
    return {"key": taint.key, "value": taint.value, "effect": _EFFECTS[taint.effect]}
