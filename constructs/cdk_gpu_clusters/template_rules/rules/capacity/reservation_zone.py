"""Nodes stand in the zone of their reservation."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.fleet import RESERVATION_ZONE
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import reservation_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.lookups.network import (
    is_same_zone,
    known_zone_of,
    subnets_by_user,
    zone_in,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    reservation = reservation_of(launch)
    zone = None if reservation is None else zone_in(reservation)
    if zone is None:
        raise NotApplicable
    for value in (value for values in subnets_by_user(launch) for value in values):
        other = known_zone_of(value)
        if not is_same_zone(zone, other):
            yield Fault(at=value, got=other.text() or "", allowed=zone.text() or "")


RULE = TemplateRule(
    rule=RESERVATION_ZONE,
    severity=Severity.ERROR,
    cause="no node in another zone can be launched into the reservation",
    fix="name a subnet in the zone of the reservation",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
        "subnets of the resources that use the launch template",
        "AWS::EC2::Subnet/AvailabilityZone",
        "AWS::EC2::CapacityReservation/AvailabilityZone",
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
          CapacityReservationTarget: {CapacityReservationId: !Ref Reserved}
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 4
      InstancePlatform: Linux/UNIX
      InstanceType: g6.48xlarge
      EndDateType: limited
      EndDate: "2026-12-31T00:00:00Z"
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: us-east-1a}
  Second:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.4.0/22, AvailabilityZone: us-east-1b}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [!Ref Second]
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
          CapacityReservationTarget: {CapacityReservationId: !Ref Reserved}
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 4
      InstancePlatform: Linux/UNIX
      InstanceType: g6.48xlarge
      EndDateType: limited
      EndDate: "2026-12-31T00:00:00Z"
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: us-east-1a}
  Second:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.4.0/22, AvailabilityZone: us-east-1b}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [!Ref Subnet]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
