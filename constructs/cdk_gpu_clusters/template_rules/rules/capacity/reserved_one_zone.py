"""A reserved group stands in one zone."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.fleet import RESERVED_ONE_ZONE
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import reservation_target
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.lookups.network import leave_the_zone
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if not reservation_target(launch).get("CapacityReservationId").exists:
        raise NotApplicable
    for subnet, zones in leave_the_zone(launch):
        yield Fault(at=subnet, got=zones, allowed="subnets of one zone")


RULE = TemplateRule(
    rule=RESERVED_ONE_ZONE,
    severity=Severity.ERROR,
    cause="a reservation lies in one zone: launches into another one fail, and the group stays short of nodes",
    fix="name subnets of the zone of the reservation",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
        "subnets of the resources that use the launch template",
        "AWS::EC2::Subnet/AvailabilityZone",
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
      VPCZoneIdentifier: [!Ref Subnet, !Ref Second]
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
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: us-east-1a}
  Second:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.4.0/22, AvailabilityZone: us-east-1a}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [!Ref Subnet, !Ref Second]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
