"""A reserved group terminates a node before it launches another in its place."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import reservation_target
from cdk_gpu_clusters.template_rules.lookups.groups import AUTO_SCALING_GROUP, launch_of_group
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

TERMINATE_FIRST = define_rule(
    "GPU-FLT-009",
    "a group in reserved capacity terminates a node before it launches another in its place",
    source='EC2 Auto Scaling guide, "Instance maintenance policies"; CloudFormation guide, "UpdatePolicy attribute"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    if not reservation_target(launch_of_group(resource)).exists:
        raise NotApplicable
    most = resource.get("InstanceMaintenancePolicy", "MaxHealthyPercentage")
    percent = most.integer()
    if percent is not None and percent > 100:
        yield Fault(at=most, got=f"{percent} percent", allowed="100")
    replace = resource.attribute("UpdatePolicy").get("AutoScalingReplacingUpdate", "WillReplace")
    if replace.flag():
        yield Fault(at=replace, got="a second group for each update", allowed="AutoScalingRollingUpdate")


RULE = TemplateRule(
    rule=TERMINATE_FIRST,
    severity=Severity.WARNING,
    cause="a reservation that is full has no room for a node beside those that it replaces: updates wait, then fail",
    fix="set MaxHealthyPercentage to 100, and update by AutoScalingRollingUpdate",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-instance-maintenance-policy.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=(
        "InstanceMaintenancePolicy/MaxHealthyPercentage",
        "UpdatePolicy/AutoScalingReplacingUpdate",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.48xlarge
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 4
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      InstanceMaintenancePolicy: {MinHealthyPercentage: 100, MaxHealthyPercentage: 125}
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.48xlarge
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 4
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      InstanceMaintenancePolicy: {MinHealthyPercentage: 0, MaxHealthyPercentage: 100}
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
