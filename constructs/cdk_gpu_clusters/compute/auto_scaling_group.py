"""The Auto Scaling group of a fleet, as the resource that CloudFormation takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import aws_cdk as cdk

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import arn_of, generated_names_of
from cdk_gpu_clusters._template import Resource
from cdk_gpu_clusters.fleet.profile import EC2

_PERCENT = 100
# Nodes that run during an instance refresh, of those wanted. CloudFormation's own default.
_MOST_HEALTHY_PERCENT = 110

LAUNCH_EVENTS = AcceptedFinding(
    cause="`GpuFleet`: Auto Scaling group",
    reason="EC2 Auto Scaling sends every launch and termination to EventBridge; a rule of yours can notify people.",
    aws_solutions=("AS3",),
)


class UpdatePolicy(str, Enum):
    """What a new launch-template version does to running nodes."""

    NEVER_REPLACE = "never"
    ROLLING = "rolling"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupParts:
    """The decided properties of a group; ids may be tokens.

    Attributes:
        name_tag: Tag `Name` of the group and its nodes, unless you set another.
        own_tags: Tags of the group alone.
        launch_template_id: Template of the nodes.
        launch_template_version: Its newest version.
        subnet_ids: Where the nodes are.
        minimum: Least nodes.
        maximum: Most nodes.
        segment: Types of capacity in the order in which they are used; without any the launch template decides.
        reservation_group_arn: The resource group that a segment uses.
        full_size: Fewest nodes that fill the capacity: those of the smallest of several blocks.
        launch_alarm: Name of the alarm on failing launches; None without one.
        refuses_force_delete: Whether the group cannot be deleted together with its nodes, whose hooks would not run.
        terminates_before_launch: Whether a replacement must free its slot first.
        ready_timeout_seconds: Time-out of the launching hook, whose default is to abandon the node.
        drain_timeout_seconds: Time-out of the terminating hook, whose default is to go on.
        update_policy: What a new template version does to running nodes.
        target_group_arns: Load-balancer target groups that nodes join when they are in service. With any, a node
            that the load balancer finds unhealthy is replaced.
    """

    name_tag: str
    launch_template_id: str
    launch_template_version: str
    subnet_ids: Sequence[str]
    minimum: int
    maximum: int
    full_size: int
    launch_alarm: Mapping[str, Any] | None
    refuses_force_delete: bool
    terminates_before_launch: bool
    ready_timeout_seconds: int
    drain_timeout_seconds: int
    update_policy: UpdatePolicy
    target_group_arns: Sequence[str] = ()
    segment: Sequence[str] = ()
    reservation_group_arn: str | None = None
    own_tags: Mapping[str, str] = field(default_factory=dict)


def group_arn_of(stack: cdk.Stack, logical_id: str) -> str:
    """The ARNs that an Auto Scaling group can have, as text that names no resource: the group can wait for a policy.

    A policy that names the group by `Ref` is attached after the group and detached before it, and the nodes that boot
    or drain meanwhile are refused. So this names what CloudFormation makes the group's name of: the name of the stack,
    in which it may shorten repeated hyphens, and the logical id; both are complete up to 241 characters. AWS's own
    managed policy `AdministratorAccess-AWSElasticBeanstalk` names the groups of a stack in this way (`awseb-e-*`).

    Source: CloudFormation user guide, "Name type"; aws-cloudformation/cloudformation-cli-java-plugin,
    `IdentifierUtils.java`.

    Args:
        stack: Stack of the group.
        logical_id: Logical id of the group, or a token for it. The group has no name of its own.
    """
    names = f"{generated_names_of(stack)}-{logical_id}-*"
    return arn_of(stack, "autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{names}")


def group_resource(parts: GroupParts) -> Resource:
    """The group as a template has it.

    It carries no `DesiredCapacity`: CloudFormation would write it back at every update. Without it a new group starts
    at its minimum, and a live one keeps its size.
    """
    properties = {
        "MinSize": str(parts.minimum),
        "MaxSize": str(parts.maximum),
        "VPCZoneIdentifier": list(parts.subnet_ids),
        **_launch(parts),
        # CloudFormation does not force: its handler may update the group, and sets the sizes to zero first (registry
        # schema, `handlers.delete`; EC2 Auto Scaling guide, "Configure deletion protection").
        "DeletionProtection": "prevent-force-deletion" if parts.refuses_force_delete else None,
        "HealthCheckType": "ELB" if parts.target_group_arns else "EC2",
        "HealthCheckGracePeriod": 300,
        "TargetGroupARNs": list(parts.target_group_arns) or None,
        "LifecycleHookSpecificationList": [
            {
                "LifecycleHookName": EC2.launch_hook,
                "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING",
                "HeartbeatTimeout": parts.ready_timeout_seconds,
                "DefaultResult": "ABANDON",
            },
            {
                "LifecycleHookName": EC2.terminate_hook,
                "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
                "HeartbeatTimeout": parts.drain_timeout_seconds,
                "DefaultResult": "CONTINUE",
            },
        ],
        "MetricsCollection": [{"Granularity": "1Minute"}],
        "InstanceMaintenancePolicy": (
            {"MinHealthyPercentage": 0, "MaxHealthyPercentage": 100} if parts.terminates_before_launch else None
        ),
        "Tags": [
            {"Key": "Name", "Value": parts.name_tag, "PropagateAtLaunch": True},
            *({"Key": key, "Value": value, "PropagateAtLaunch": False} for key, value in parts.own_tags.items()),
        ],
    }
    return {"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": properties}


def _launch(parts: GroupParts) -> dict[str, Any]:
    """What the group launches from, and into which of several types of reservations.

    Source: EC2 Auto Scaling guide, "Use Distribution Segments to target multiple Capacity Reservation types": the
    group has the target, with no other preference than `default` and no other strategy than `prioritized`.
    """
    template = {"LaunchTemplateId": parts.launch_template_id, "Version": parts.launch_template_version}
    if not parts.segment:
        return {"LaunchTemplate": template}
    distribution = {
        "OnDemandAllocationStrategy": "prioritized",
        "DistributionSegments": [{"TargetCapacityTypes": list(parts.segment)}],
    }
    return {
        "MixedInstancesPolicy": {
            "LaunchTemplate": {"LaunchTemplateSpecification": template},
            "InstancesDistribution": distribution,
        },
        "CapacityReservationSpecification": {
            "CapacityReservationPreference": "default",
            "CapacityReservationTarget": {"CapacityReservationResourceGroupArns": [parts.reservation_group_arn]},
        },
    }


def update_policy(parts: GroupParts) -> cdk.CfnUpdatePolicy | None:
    """What a new template version does to running nodes; None for nothing. CDK's include does not know this policy.

    EC2 Auto Scaling replaces the nodes by an instance refresh. It waits until a new node has completed its hook, its
    target groups find it healthy, and the grace period of the health check has passed. Where a node more has room, it
    launches before it terminates. That must not happen where the capacity is full, and both are percentages of the
    desired size: so the least is that of the smallest full size, less one node.

    If new nodes fail their boot, launching is suspended, and the refresh would wait for up to 36 hours. The alarm ends
    it. Nodes in standby stay as they are.

    Source: aws-cdk-lib 2.275, `CfnAutoScalingInstanceRefreshPreferences`; EC2 Auto Scaling guide, "How an instance
    refresh works", and API reference, RefreshPreferences.
    """
    if parts.update_policy is not UpdatePolicy.ROLLING:
        return None
    least, most = (_PERCENT * (parts.full_size - 1) // parts.full_size, _PERCENT)
    if not parts.terminates_before_launch:
        least, most = _PERCENT, _MOST_HEALTHY_PERCENT
    preferences = cdk.CfnAutoScalingInstanceRefreshPreferences(
        min_healthy_percentage=least,
        max_healthy_percentage=most,
        skip_matching=True,
        standby_instances="Ignore",
        alarm_specification=None
        if parts.launch_alarm is None
        else cdk.CfnAutoScalingInstanceRefreshAlarmSpecification(alarms=[cdk.Token.as_string(parts.launch_alarm)]),
    )
    return cdk.CfnUpdatePolicy(
        auto_scaling_instance_refresh=cdk.CfnAutoScalingInstanceRefresh(strategy="Rolling", preferences=preferences)
    )
