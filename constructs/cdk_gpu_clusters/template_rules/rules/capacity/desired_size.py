"""A group that something else sizes has no desired size in the template."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import (
    AUTO_SCALING_GROUP,
    automation_of,
    scaling_policies_of,
    scheduled_actions_of,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

DESIRED_SIZE = define_rule(
    "GPU-FLT-008",
    "a group whose size is set by a policy, a schedule or a state machine has no desired size in the template",
    source="AWS::AutoScaling::AutoScalingGroup reference, DesiredCapacity: CloudFormation sets what the template says",
)


def _check(resource: Resource) -> Iterator[Fault]:
    sizers = scaling_policies_of(resource) + scheduled_actions_of(resource) + automation_of(resource)
    if not sizers:
        raise NotApplicable
    kept = resource.attribute("UpdatePolicy").get(
        "AutoScalingScheduledAction", "IgnoreUnmodifiedGroupSizeProperties"
    )
    desired = resource.get("DesiredCapacity")
    if desired.exists and not kept.flag():
        yield Fault(
            at=desired,
            got=f"{desired.shown()} beside {sizers[0].logical_id}",
            allowed="none",
        )


RULE = TemplateRule(
    rule=DESIRED_SIZE,
    severity=Severity.WARNING,
    cause="the next change of the group in the template sets this size again, and ends jobs or pays for nodes",
    fix="leave DesiredCapacity out, or set IgnoreUnmodifiedGroupSizeProperties in the update policy",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-autoscaling-autoscalinggroup.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=(
        "DesiredCapacity",
        "AWS::AutoScaling::ScalingPolicy",
        "AWS::AutoScaling::ScheduledAction",
        "state machines, schedules and functions that name the group",
    ),
    check=_check,
    bad="""
Resources:
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      DesiredCapacity: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: lt-0123456789abcdef0, Version: 3}
  Night:
    Type: AWS::AutoScaling::ScheduledAction
    Properties: {AutoScalingGroupName: !Ref Group, Recurrence: 0 20 * * *, DesiredCapacity: 0}
""",
    good="""
Resources:
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: lt-0123456789abcdef0, Version: 3}
  Night:
    Type: AWS::AutoScaling::ScheduledAction
    Properties: {AutoScalingGroupName: !Ref Group, Recurrence: 0 20 * * *, DesiredCapacity: 0}
""",
)
