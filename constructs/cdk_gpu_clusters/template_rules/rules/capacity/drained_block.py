"""A group on a Capacity Block goes to zero before the block ends."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import market_type_of
from cdk_gpu_clusters.template_rules.lookups.groups import (
    AUTO_SCALING_GROUP,
    automation_of,
    launch_of_group,
    scheduled_actions_of,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

DRAINED_BLOCK = define_rule(
    "GPU-CAP-033",
    "a group on a Capacity Block goes to zero before the block ends",
    source='EC2 Auto Scaling guide, "Use Capacity Blocks": scale to zero more than 30 minutes before the end',
)


def _check(resource: Resource) -> Iterator[Fault]:
    if market_type_of(launch_of_group(resource)) != "capacity-block":
        raise NotApplicable
    if automation_of(resource) or any(_empties(action) for action in scheduled_actions_of(resource)):
        return
    yield Fault(
        at=resource, got="nothing that sets its size to 0", allowed="a scheduled action, or a state machine"
    )


def _empties(action: Resource) -> bool:
    return any(action.get(key).integer() == 0 for key in ("DesiredCapacity", "MaxSize"))


RULE = TemplateRule(
    rule=DRAINED_BLOCK,
    severity=Severity.WARNING,
    cause="EC2 terminates the nodes 30 minutes before the end, amid a job, and the group tries to replace them",
    fix="add an AWS::AutoScaling::ScheduledAction that sets the size to 0, 40 minutes before the end",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-template-capacity-blocks.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=(
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions/MarketType",
        "AWS::AutoScaling::ScheduledAction",
        "state machines, schedules and functions that name the group",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
  Drain:
    Type: AWS::AutoScaling::ScheduledAction
    Properties:
      AutoScalingGroupName: !Ref Group
      StartTime: "2026-12-15T10:50:00Z"
      MinSize: 0
      MaxSize: 0
""",
)
