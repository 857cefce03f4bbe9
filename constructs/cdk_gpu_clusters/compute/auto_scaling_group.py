"""The Auto Scaling group of a fleet, as the resource that CloudFormation takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import aws_cdk as cdk
from aws_cdk import aws_autoscaling as autoscaling
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters.fleet.profile import EC2

_TOLD_BY_EVENTS = AcceptedFinding(
    cause="`GpuFleet`: Auto Scaling group",
    reason="EC2 Auto Scaling sends every launch and termination to EventBridge; whom a rule tells is the user's word.",
    aws_solutions=("AS3",),
)


class UpdatePolicy(str, Enum):
    """What a new launch-template version does to running nodes."""

    NEVER_REPLACE = "never"
    ROLLING = "rolling"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupParts:
    """Everything a group says, decided; ids may be tokens.

    Attributes:
        name_tag: Tag `Name` of the group and its nodes, unless the user says another.
        launch_template_id: Template of the nodes.
        launch_template_version: Its newest version.
        subnet_ids: Where the nodes stand.
        minimum: Least nodes.
        maximum: Most nodes.
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
    terminates_before_launch: bool
    ready_timeout_seconds: int
    drain_timeout_seconds: int
    update_policy: UpdatePolicy
    target_group_arns: Sequence[str] = ()


def auto_scaling_group(
    scope: Construct, construct_id: str, parts: GroupParts
) -> autoscaling.CfnAutoScalingGroup:
    """Define the group.

    It carries no `DesiredCapacity`: CloudFormation would write it back at every update. Without it a new group starts
    at its minimum, and a live one keeps its size.
    """
    # Dictionaries in camel case, which CDK passes on as given: a typed one each would cost messages and checks.
    group = autoscaling.CfnAutoScalingGroup(
        scope,
        construct_id,
        min_size=str(parts.minimum),
        max_size=str(parts.maximum),
        vpc_zone_identifier=list(parts.subnet_ids),
        launch_template={
            "launchTemplateId": parts.launch_template_id,
            "version": parts.launch_template_version,
        },
        health_check_type="ELB" if parts.target_group_arns else "EC2",
        # Counts from the end of the launching hook, so the boot does not use it up (EC2 Auto Scaling guide, "Set the
        # health check grace period").
        health_check_grace_period=300,
        target_group_arns=list(parts.target_group_arns) or None,
        lifecycle_hook_specification_list=[
            {
                "lifecycleHookName": EC2.launch_hook,
                "lifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING",
                "heartbeatTimeout": parts.ready_timeout_seconds,
                "defaultResult": "ABANDON",
            },
            {
                "lifecycleHookName": EC2.terminate_hook,
                "lifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
                "heartbeatTimeout": parts.drain_timeout_seconds,
                "defaultResult": "CONTINUE",
            },
        ],
        metrics_collection=[{"granularity": "1Minute"}],
        instance_maintenance_policy=(
            # Said in full: an account-wide setting can turn launch-before-terminate on, which a full reservation
            # can never do.
            {"minHealthyPercentage": 0, "maxHealthyPercentage": 100}
            if parts.terminates_before_launch
            else None
        ),
        tags=[{"key": "Name", "value": parts.name_tag, "propagateAtLaunch": True}],
    )
    _TOLD_BY_EVENTS.at(group)
    if parts.update_policy is UpdatePolicy.ROLLING:
        group.cfn_options.update_policy = _rolling(parts)
    return group


def _rolling(parts: GroupParts) -> cdk.CfnUpdatePolicy:
    # One node at a time; the hook holds each until ready. A fixed-size fleet and a full reservation have no room for
    # one more, so one goes first; a fleet that scales keeps its minimum (CloudFormation wants it below the maximum).
    has_room = parts.maximum > parts.minimum and not parts.terminates_before_launch
    return cdk.CfnUpdatePolicy(
        auto_scaling_rolling_update=cdk.CfnAutoScalingRollingUpdate(
            max_batch_size=1,
            min_instances_in_service=parts.minimum if has_room else max(0, parts.minimum - 1),
            suspend_processes=[
                "HealthCheck",
                "ReplaceUnhealthy",
                "AZRebalance",
                "AlarmNotification",
                "ScheduledActions",
            ],
        )
    )
