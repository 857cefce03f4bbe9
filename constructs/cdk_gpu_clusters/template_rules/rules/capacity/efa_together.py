"""Nodes with EFA are kept close together, by a placement group or by reserved capacity."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.placement import EFA_TOGETHER
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import placements_of, reservation_target
from cdk_gpu_clusters.template_rules.lookups.groups import most_nodes_of, users_of
from cdk_gpu_clusters.template_rules.lookups.launches import INSTANCE, LAUNCHES, efa_launch
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    launch = efa_launch(resource)
    if resource.type == INSTANCE:
        raise NotApplicable  # one node has nobody to be close to
    if placements_of(launch) or reservation_target(launch).exists:
        return
    users = users_of(launch)
    if not users:
        raise launch.data.undecidable(
            "what launches from it, maybe into a group, is in no part of the template"
        )
    if any(most_nodes_of(user) > 1 for user in users):
        yield Fault(
            at=launch.data.get("Placement"), got="no placement group", allowed="a group of strategy cluster"
        )


RULE = TemplateRule(
    rule=EFA_TOGETHER,
    severity=Severity.WARNING,
    cause="nodes that exchange EFA traffic may land far apart in the zone, which slows every collective operation",
    fix="add an AWS::EC2::PlacementGroup of strategy cluster and name it in Placement/GroupName",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/Placement",
        "LaunchTemplateData/CapacityReservationSpecification",
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "AWS::AutoScaling::AutoScalingGroup/PlacementGroup",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
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
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: cluster}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        Placement: {GroupName: !Ref Place}
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
