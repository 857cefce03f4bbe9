"""The resources of a fleet on plain EC2, defined in one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters._accepted import SILENT_ALARM, AcceptedFinding, named_defined
from cdk_gpu_clusters._cdk import ClusterConstruct, DefinedResources, arn_of, define
from cdk_gpu_clusters._template import Resource, Resources, att, ref
from cdk_gpu_clusters.compute.alarms import fleet_alarms
from cdk_gpu_clusters.compute.auto_scaling_group import LAUNCH_EVENTS, GroupParts, group_resource
from cdk_gpu_clusters.compute.node_records import BOOT_EVENTS, log_group_resource
from cdk_gpu_clusters.compute.node_role import (
    accepted_sessions,
    permissions_resource,
    profile_resource,
    role_resource,
)
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.rules.fleet import AlarmSettings

if TYPE_CHECKING:  # takes long to load
    from aws_cdk import aws_logs as logs

# Paths below the fleet.
LOGS, ROLE, PROFILE = "Logs/Resource", "Role/Resource", "InstanceProfile/Resource"
TEMPLATE, GROUP, PERMISSIONS = "LaunchTemplate/Resource", "Resource", "NodePermissions/Resource"

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
        role_name: Role of the nodes, None for one of their own.
        policy_arns: Policies that their own role has.
        log_retention: How long boot events are kept.
        log_key_arn: Key of the log group, None for CloudWatch's own.
        evidence: Statements that let nodes leave evidence.
        alarms: When the fleet raises alarms, None for never.
    """

    path: str
    partition: str
    group_arn: str
    plan: FleetPlan
    group: GroupParts
    launch_template: Resource
    role_name: str | None
    policy_arns: Sequence[str]
    log_retention: logs.RetentionDays
    log_key_arn: str | None
    evidence: Sequence[Mapping[str, Any]]
    alarms: AlarmSettings | None


def group_arn_of(scope: ClusterConstruct) -> str:
    """The ARN of a fleet's group, whose id only EC2 knows."""
    return arn_of(scope, "autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{ref(GROUP)}")


def fleet_resources(parts: FleetParts) -> Resources:
    """The resources of a fleet, by path below it."""
    role_name = ref(ROLE) if parts.role_name is None else parts.role_name
    permissions = permissions_resource(
        group_arn=parts.group_arn,
        log_group_arn=att(LOGS, "Arn"),
        role_name=role_name,
        evidence=parts.evidence,
    )
    return {
        LOGS: log_group_resource(parts.log_retention, parts.log_key_arn),
        **({ROLE: role_resource(*parts.policy_arns)} if parts.role_name is None else {}),
        PROFILE: profile_resource(role_name),
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
        log_group_arn=att(LOGS, "Arn"),
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
    if parts.role_name is None:
        accepted += accepted_sessions()
    if parts.log_key_arn is None:
        accepted += BOOT_EVENTS.with_details()
    if parts.alarms is not None:
        accepted += SILENT_ALARM.with_details()
    accepted.at(defined.scope)
    return defined
