"""A spread group has room for the nodes."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.placement import SPREAD_SIZE, PlacementStrategy, check_placement
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import strategies_of
from cdk_gpu_clusters.template_rules.lookups.groups import most_nodes_of, users_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.lookups.network import subnets_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    spread = [value for value, strategy in strategies_of(launch) if strategy is PlacementStrategy.SPREAD]
    if not spread:
        raise NotApplicable
    for user in users_of(launch):
        zones = max(1, len(subnets_of(user)))  # not fewer than there are
        nodes = most_nodes_of(user)
        for _, record in launch.records():
            findings = check_placement(record, PlacementStrategy.SPREAD, node_count=nodes, zone_count=zones)
            yield from faults_of(SPREAD_SIZE, findings, spread[0])


RULE = TemplateRule(
    rule=SPREAD_SIZE,
    severity=Severity.ERROR,
    cause="EC2 runs no more than 7 instances of a spread group in a zone, and launches no others",
    fix="use a partition group, more zones, or no placement group",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/Placement/GroupName",
        "AWS::EC2::PlacementGroup/Strategy",
        "greatest size and subnets of the resources that use the launch template",
    ),
    check=_check,
    bad="""
Resources:
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: spread}
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
      MaxSize: 8
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: spread}
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
      MaxSize: 7
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
