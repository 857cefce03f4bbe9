"""The resources of a fleet on plain EC2, defined in one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters._accepted import SILENT_ALARM, UNDELIVERED, AcceptedFinding, named_defined
from cdk_gpu_clusters._cdk import (
    ClusterConstruct,
    DefinedResources,
    arn_of,
    define,
    path_in_stack,
    stack_of,
)
from cdk_gpu_clusters._template import Resource, Resources, allow, att, logical_id, ref
from cdk_gpu_clusters.compute.alarms import fleet_alarms
from cdk_gpu_clusters.compute.auto_scaling_group import LAUNCH_EVENTS, GroupParts, group_arn_of, group_resource
from cdk_gpu_clusters.compute.fleet_jobs import job_document, job_parameter, parameter_arn
from cdk_gpu_clusters.compute.launch_stop import launch_alarm_name
from cdk_gpu_clusters.compute.node_records import PLAIN_LOGS
from cdk_gpu_clusters.compute.node_role import (
    permissions_resource,
    profile_resource,
)
from cdk_gpu_clusters.compute.reconcile import (
    BEFORE_GROUP,
    DEPLOYED,
    POLICY,
    BlockGroup,
    Reconcile,
    auto_scaling_calls,
    followed_ids,
    reconcile_alarms,
    shortage_alarms,
)
from cdk_gpu_clusters.compute.state_machine import LOGS, shared_resources, undelivered_alarm
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.rules.capacity import CapacityTerms
from cdk_gpu_clusters.rules.fleet import AlarmSettings

# Paths below the fleet.
BLOCKS = "Blocks/Resource"
PROFILE, TEMPLATE = "InstanceProfile/Resource", "LaunchTemplate/Resource"
GROUP, PERMISSIONS = "Resource", "NodePermissions/Resource"
JOBS, JOB_REQUEST = "Jobs/Resource", "JobRequest/Resource"

# Of the 128 characters of a resource group's name, beside the 36 of its stack's UUID (registry schema, Name).
_LONGEST_NAME = 80

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
        plan: What was decided about it.
        terms: How its nodes are bought, with the ids of the reservations.
        group: The Auto Scaling group.
        launch_template: The launch template.
        role_name: Role of the nodes.
        log_group_arn: Where their events go.
        log_key_arn: Key of log groups; None for CloudWatch's own.
        evidence: Statements that let nodes leave evidence.
        alarms: When the fleet raises alarms, None for never.
    """

    path: str
    partition: str
    plan: FleetPlan
    terms: CapacityTerms
    group: GroupParts
    launch_template: Resource
    role_name: str
    logging: Sequence[Mapping[str, Any]]
    log_key_arn: str | None
    evidence: Sequence[Mapping[str, Any]]
    alarms: AlarmSettings | None


def _nodes_group_arn(fleet: ClusterConstruct) -> str:
    """The group as the permissions of its nodes name it, by the logical id that CDK gives it."""
    return group_arn_of(stack_of(fleet), _group_id(fleet))


def _group_id(fleet: ClusterConstruct) -> str:
    return logical_id(f"{path_in_stack(fleet)}/{GROUP}")


def _group_arn(fleet: ClusterConstruct) -> str:
    return arn_of(fleet, "autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{ref(GROUP)}")


def _alarms_arn(fleet: ClusterConstruct) -> str:
    return arn_of(fleet, "cloudwatch", "alarm:*")


def fleet_resources(fleet: ClusterConstruct, parts: FleetParts) -> Resources:
    """The resources of a fleet, by path below it.

    Args:
        fleet: The fleet.
        parts: What they consist of.
    """
    permissions = permissions_resource(
        group_arn=_nodes_group_arn(fleet),
        logging=parts.logging,
        role_name=parts.role_name,
        evidence=parts.evidence,
        jobs=[allow(parameter_arn(fleet, ref(JOB_REQUEST)), "ssm:GetParameter")] if parts.plan.runs_jobs else [],
    )
    reconcile = _reconcile(fleet, parts)
    watched = {} if parts.alarms is None else _alarms(fleet, parts, parts.alarms)
    before = [PERMISSIONS, *(path for path in BEFORE_GROUP if path in reconcile)]
    return {
        PROFILE: profile_resource(parts.role_name),
        TEMPLATE: parts.launch_template,
        # Its nodes complete their hooks while CloudFormation makes it, and while it deletes it.
        GROUP: {**group_resource(parts.group), "DependsOn": before},
        PERMISSIONS: permissions,
        **({JOBS: job_document(), JOB_REQUEST: job_parameter()} if parts.plan.runs_jobs else {}),
        **({BLOCKS: _block_group(fleet)} if parts.terms.blocks else {}),
        **_with_shared(fleet, parts, {**reconcile, **watched}),
    }


def _with_shared(fleet: ClusterConstruct, parts: FleetParts, machines: Resources) -> Resources:
    """The state machines and alarms with what the machines share."""
    shared = shared_resources(machines, name=logical_id(path_in_stack(fleet)), log_key_arn=parts.log_key_arn)
    watched = undelivered_alarm() if shared and parts.alarms is not None else {}
    return {**machines, **shared, **watched}


def _block_group(fleet: ClusterConstruct) -> Resource:
    """The group of a fleet's Capacity Blocks, of which a launch takes one that runs.

    It is made empty: EC2 takes active reservations only, and a block is scheduled until it starts. The reconcile puts
    each of them into it then.

    Source: EC2 user guide, "Capacity Reservation Resource Groups" (a group supports all reservation types), "Add a
    Capacity Reservation to a group" and "View Capacity Blocks" (states).
    """
    configuration = [
        {"Type": "AWS::EC2::CapacityReservationPool"},
        {
            "Type": "AWS::ResourceGroups::Generic",
            "Parameters": [{"Name": "allowed-resource-types", "Values": ["AWS::EC2::CapacityReservation"]}],
        },
    ]
    stack_uuid = {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}
    words = logical_id(f"{path_in_stack(fleet)}/{BLOCKS}")[-_LONGEST_NAME:]
    name = {"Fn::Join": ["-", [f"gpu-{words}", stack_uuid]]}
    return {"Type": "AWS::ResourceGroups::Group", "Properties": {"Name": name, "Configuration": configuration}}


def _reconcile(fleet: ClusterConstruct, parts: FleetParts) -> Resources:
    """What keeps the capacity of a fleet filled, and empties it in time; nothing for capacity without an end."""
    plan, alarms = parts.plan, parts.alarms
    if not plan.windows:
        return {}
    stack = stack_of(fleet)
    stops = alarms is not None and alarms.suspends_launching
    calls = auto_scaling_calls(parts.partition, _nodes_group_arn(fleet), ends_instances=len(plan.windows) > 1)
    watched = {}
    if alarms is not None:
        watched = reconcile_alarms()
        if plan.terms.kind.is_reserved and plan.keeps_size:
            watched |= shortage_alarms(ref(GROUP), plan.windows, ready_timeout_seconds=plan.ready_timeout_seconds)
    reconcile = Reconcile(
        calls=calls,
        group=ref(GROUP),
        group_id=_group_id(fleet),
        windows=plan.windows,
        keeps_size=plan.keeps_size,
        is_paid=plan.terms.kind.is_reserved,
        fewest=plan.fewest,
        block_group=BlockGroup(arn=att(BLOCKS, "Arn"), reservations=arn_of(fleet, "ec2", "capacity-reservation"))
        if parts.terms.blocks
        else None,
        reservation_ids=followed_ids(parts.terms),
        launch_alarm=launch_alarm_name(parts.path) if stops else None,
        partition=parts.partition,
        account=stack.account,
        region=stack.region,
    )
    return {**reconcile.resources(), **watched}


def _alarms(fleet: ClusterConstruct, parts: FleetParts, settings: AlarmSettings) -> Resources:
    return fleet_alarms(
        parts.plan,
        settings,
        fleet=parts.path,
        group_name=ref(GROUP),
        group_arn=_group_arn(fleet),
        alarms_arn=_alarms_arn(fleet),
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
    groups = [named_defined(scope, arn, defined.ids) for arn in (_nodes_group_arn(scope), _group_arn(scope))]
    if parts.alarms is not None:
        groups.append(named_defined(scope, _alarms_arn(scope), defined.ids))
    accepted = _PERMISSIONS.with_details("Resource::*", *groups) + LAUNCH_EVENTS.with_details()
    if parts.alarms is not None:
        accepted += SILENT_ALARM.with_details()
    reconciles = POLICY in resources
    if LOGS in resources:
        accepted += UNDELIVERED.with_details()
        if not parts.log_key_arn:
            accepted += PLAIN_LOGS.with_details()
    accepted.at(defined.scope)
    # With the logical id as it will be: a stack that makes its own, and you, may still change it.
    arn = group_arn_of(stack_of(scope), defined.resource(GROUP).logical_id)
    for path in (PERMISSIONS, POLICY) if reconciles else (PERMISSIONS,):
        defined.resource(path).add_property_override("PolicyDocument.Statement.0.Resource", arn)
    if reconciles:
        named = [defined.resource(GROUP).logical_id]
        defined.resource(DEPLOYED).add_property_override("EventPattern.detail.logical-resource-id", named)
    return defined
