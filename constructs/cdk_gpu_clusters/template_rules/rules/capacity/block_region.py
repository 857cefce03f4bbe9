"""Capacity Blocks of the type are listed for the Region."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.capacity import CapacityTerms
from cdk_gpu_clusters.rules.capacity_checks import BLOCK_REGION, check_capacity
from cdk_gpu_clusters.rules.zones import read_zone
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import capacity_kind_of, market_type_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.lookups.network import known_zone_of, subnets_by_user
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    subnets = [value for values in subnets_by_user(launch) for value in values]
    if market_type_of(launch) != "capacity-block" or not subnets:
        raise NotApplicable
    for value in subnets:
        zone = read_zone(known_zone_of(value).text() or "")
        for _, record in launch.records():
            terms = CapacityTerms(kind=capacity_kind_of(launch, record))
            findings = check_capacity(terms, record, region=zone.region if zone else None)
            yield from faults_of(BLOCK_REGION, findings, value)


RULE = TemplateRule(
    rule=BLOCK_REGION,
    severity=Severity.WARNING,
    cause="there may be no Capacity Block of this type to launch into",
    fix="check the Region; the list is of mid-2026 and may have grown",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceMarketOptions/MarketType",
        "LaunchTemplateData/InstanceType",
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
        InstanceType: p4de.24xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: eu-central-1a}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [!Ref Subnet]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4de.24xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: us-east-1a}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [!Ref Subnet]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
