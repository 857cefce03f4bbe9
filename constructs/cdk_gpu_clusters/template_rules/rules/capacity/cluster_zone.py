"""The nodes of a cluster placement group stand in one zone."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.placement import CLUSTER_ZONES, PlacementStrategy
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import strategies_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.lookups.network import leave_the_zone
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if all(strategy is not PlacementStrategy.CLUSTER for _, strategy in strategies_of(launch)):
        raise NotApplicable
    for subnet, zones in leave_the_zone(launch):
        yield Fault(at=subnet, got=zones, allowed="subnets of one zone")


RULE = TemplateRule(
    rule=CLUSTER_ZONES,
    severity=Severity.ERROR,
    cause="a cluster placement group cannot span zones: launches into the second one fail",
    fix="name subnets of one zone, or use another strategy",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/Placement/GroupName",
        "AWS::EC2::PlacementGroup/Strategy",
        "subnets of the resources that use the launch template",
        "AWS::EC2::Subnet/AvailabilityZone",
    ),
    check=_check,
    bad="""
Resources:
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: cluster}
  First:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: us-east-1a}
  Second:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.4.0/22, AvailabilityZone: us-east-1b}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        Placement: {GroupName: !Ref Place}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [!Ref First, !Ref Second]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: cluster}
  First:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: us-east-1a}
  Second:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.4.0/22, AvailabilityZone: us-east-1a}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        Placement: {GroupName: !Ref Place}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [!Ref First, !Ref Second]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
