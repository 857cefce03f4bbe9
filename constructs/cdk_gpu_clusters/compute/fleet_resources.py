"""The resources of a fleet on plain EC2, defined in one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters._accepted import SILENT_ALARM, AcceptedFinding, named_defined
from cdk_gpu_clusters._cdk import ClusterConstruct, DefinedResources, arn_of, define
from cdk_gpu_clusters._template import Resource, Resources, ref
from cdk_gpu_clusters.compute.alarms import fleet_alarms
from cdk_gpu_clusters.compute.auto_scaling_group import LAUNCH_EVENTS, GroupParts, group_resource
from cdk_gpu_clusters.compute.node_role import (
    permissions_resource,
    profile_resource,
)
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.rules.fleet import AlarmSettings

# Paths below the fleet.
PROFILE, TEMPLATE = "InstanceProfile/Resource", "LaunchTemplate/Resource"
GROUP, PERMISSIONS = "Resource", "NodePermissions/Resource"

_PERMISSIONS = AcceptedFinding(
    cause="`GpuFleet`: policies of the nodes, and of the state machine that suspends launching",
    reason="The describe actions that find a node's peers, log delivery and tracing have no resource level, and the "
    "ARN of the fleet's own group holds an id that only EC2 knows.",
    aws_solutions=("IAM5",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetParts:
    """Everything that the resources of a fleet consist of, decided; ids and names may be tokens.

    Attributes:
        path: Path of the fleet.
        partition: Partition of its stack.
        group_arn: ARN of its group.
        plan: What was decided about it.
        group: The Auto Scaling group.
        launch_template: The launch template.
        role_name: Role of the nodes.
        log_group_arn: Where their events go.
        evidence: Statements that let nodes leave evidence.
        alarms: When the fleet raises alarms, None for never.
    """

    path: str
    partition: str
    group_arn: str
    plan: FleetPlan
    group: GroupParts
    launch_template: Resource
    role_name: str
    log_group_arn: str
    evidence: Sequence[Mapping[str, Any]]
    alarms: AlarmSettings | None


def group_arn_of(scope: ClusterConstruct) -> str:
    """The ARN of a fleet's group, whose id only EC2 knows."""
    return arn_of(scope, "autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{ref(GROUP)}")


def fleet_resources(parts: FleetParts) -> Resources:
    """The resources of a fleet, by path below it."""
    permissions = permissions_resource(
        group_arn=parts.group_arn,
        log_group_arn=parts.log_group_arn,
        role_name=parts.role_name,
        evidence=parts.evidence,
    )
    return {
        PROFILE: profile_resource(parts.role_name),
        TEMPLATE: parts.launch_template,
        GROUP: group_resource(parts.group),
        PERMISSIONS: permissions,
        **({} if parts.alarms is None else _alarms(parts, parts.alarms)),
    }


def _alarms(parts: FleetParts, settings: AlarmSettings) -> Resources:
    return fleet_alarms(
        parts.plan,
        settings,
        fleet=parts.path,
        group_name=ref(GROUP),
        group_arn=parts.group_arn,
        log_group_arn=parts.log_group_arn,
        partition=parts.partition,
    )


def define_fleet(
    scope: ClusterConstruct, parts: FleetParts, resources: Resources, values: Mapping[str, Any]
) -> DefinedResources:
    """Define the resources of a fleet, and accept what policy packs find in them.

    Args:
        scope: The fleet.
        parts: What they consist of.
        resources: From `fleet_resources`.
        values: What the launch template names.
    """
    defined = define(scope, resources, values=values)
    group = named_defined(scope, parts.group_arn, defined.ids)
    accepted = _PERMISSIONS.with_details("Resource::*", group) + LAUNCH_EVENTS.with_details()
    if parts.alarms is not None:
        accepted += SILENT_ALARM.with_details()
    accepted.at(defined.scope)
    return defined
