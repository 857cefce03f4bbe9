"""The Auto Scaling group of a fleet, as the resource that CloudFormation takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._template import Resource
from cdk_gpu_clusters.fleet.profile import EC2

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


def group_resource(parts: GroupParts) -> Resource:
    """The group as a template has it.

    It carries no `DesiredCapacity`: CloudFormation would write it back at every update. Without it a new group starts
    at its minimum, and a live one keeps its size.
    """
    properties = {
        "MinSize": str(parts.minimum),
        "MaxSize": str(parts.maximum),
        "VPCZoneIdentifier": list(parts.subnet_ids),
        "LaunchTemplate": {
            "LaunchTemplateId": parts.launch_template_id,
            "Version": parts.launch_template_version,
        },
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
        "Tags": [{"Key": "Name", "Value": parts.name_tag, "PropagateAtLaunch": True}],
    }
    found: Resource = {"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": properties}
    if parts.update_policy is UpdatePolicy.ROLLING:
        found["UpdatePolicy"] = {"AutoScalingRollingUpdate": _rolling_update(parts)}
    return found


def _rolling_update(parts: GroupParts) -> Resource:
    has_room = parts.maximum > parts.minimum and not parts.terminates_before_launch
    return {
        "MaxBatchSize": 1,
        "MinInstancesInService": parts.minimum if has_room else max(0, parts.minimum - 1),
        "SuspendProcesses": [
            "HealthCheck",
            "ReplaceUnhealthy",
            "AZRebalance",
            "AlarmNotification",
            "ScheduledActions",
        ],
    }
