"""The managed node group, as the resource that CloudFormation takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.compute.fleet_plan import FleetPlan
from cdk_gpu_clusters.orchestration.eks.node_group_plan import NodeGroupPlan, NodeGroupWish
from cdk_gpu_clusters.rules.kubernetes_labels import NodeTaint
from cdk_gpu_clusters.rules.node_group import CAPACITY_TYPES, RepairOverride, desired_size, update_strategy

_EFFECTS = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedNodes:
    """Everything a node group says, decided; ids may be tokens.

    Attributes:
        cluster_name: The cluster.
        role_arn: Role of the nodes.
        subnet_ids: Where they stand.
        template: Their launch template, which names their type.
        plan: What was decided about them as about every fleet.
        group: What was decided about them as a node group.
        wish: What the user says.
        update_policy: What a new template version, or version of Kubernetes, does to running nodes.
        needs: What has to be there for a node's first boot.
    """

    cluster_name: str
    role_arn: str
    subnet_ids: Sequence[str]
    template: ec2.CfnLaunchTemplate
    plan: FleetPlan
    group: NodeGroupPlan
    wish: NodeGroupWish
    update_policy: UpdatePolicy
    needs: Sequence[IDependable]


def managed_nodes(scope: Construct, construct_id: str, nodes: ManagedNodes) -> eks.CfnNodegroup:
    """Define the node group.

    It has no name of its own, no disk size, no remote access and no instance types: the name and the types change only
    with the whole group, and EKS takes the others from the launch template.

    EKS keeps every node of a group on one version of the template, and replaces all when it changes. So a group whose
    nodes are never replaced stays on the default version, which CloudFormation leaves alone (AWS::EC2::LaunchTemplate
    reference, DefaultVersionNumber), and on the Kubernetes version that the cluster had when the group was made.
    """
    rolls = nodes.update_policy is UpdatePolicy.ROLLING
    template, decision = nodes.template, nodes.plan.decision
    # Dictionaries in camel case, which CDK passes on as given.
    made = eks.CfnNodegroup(
        scope,
        construct_id,
        cluster_name=nodes.cluster_name,
        node_role=nodes.role_arn,
        subnets=list(nodes.subnet_ids),
        ami_type=nodes.group.ami_type,
        capacity_type=CAPACITY_TYPES[nodes.plan.capacity.terms.kind].value,
        launch_template={
            "id": template.ref,
            "version": template.attr_latest_version_number if rolls else template.attr_default_version_number,
        },
        version=nodes.wish.kubernetes_version if rolls else None,
        release_version=nodes.wish.release_version,
        scaling_config=_scaling(nodes.plan),
        update_config={
            "maxUnavailable": nodes.wish.max_unavailable,
            "updateStrategy": update_strategy(decision).value,
        },
        node_repair_config=_repair(nodes),
        labels=dict(nodes.group.pool.labels),
        taints=[_taint(taint) for taint in nodes.group.pool.taints] or None,
    )
    made.node.add_dependency(*nodes.needs)
    scope.node.default_child = made
    return made


def _scaling(plan: FleetPlan) -> dict[str, int]:
    sizes = {"minSize": plan.minimum, "maxSize": plan.maximum}
    desired = desired_size(plan.decision, minimum=plan.minimum, maximum=plan.maximum)
    return sizes if desired is None else {**sizes, "desiredSize": desired}


def _repair(nodes: ManagedNodes) -> dict[str, Any]:
    repair = nodes.wish.repair
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
