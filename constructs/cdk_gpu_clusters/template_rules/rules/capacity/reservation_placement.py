"""A reservation is made in a cluster placement group, or in none."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.placement import PlacementStrategy
from cdk_gpu_clusters.rules.reservations import RESERVATION_PLACEMENT
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import RESERVATION, placement_group_in_arn, strategy_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    arn = resource.get("PlacementGroupArn")
    if not arn.exists:
        raise NotApplicable
    group = placement_group_in_arn(arn)
    if group is None:
        raise arn.undecidable("this placement group stands in no part of the template")
    strategy = strategy_of(group)
    if strategy is not PlacementStrategy.CLUSTER:
        yield Fault(at=arn, got=strategy.value, allowed=PlacementStrategy.CLUSTER.value)


RULE = TemplateRule(
    rule=RESERVATION_PLACEMENT,
    severity=Severity.ERROR,
    cause="a reservation can be made only in a cluster placement group",
    fix="use a cluster placement group, or none",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-cpg.html",
    on=(RESERVATION,),
    looks_at=(
        "PlacementGroupArn",
        "AWS::EC2::PlacementGroup/Strategy",
    ),
    check=_check,
    bad="""
Resources:
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 4
      InstancePlatform: Linux/UNIX
      InstanceType: g6.48xlarge
      EndDateType: limited
      EndDate: "2026-12-31T00:00:00Z"
      PlacementGroupArn: !Sub "arn:${AWS::Partition}:ec2:${AWS::Region}:${AWS::AccountId}:placement-group/${Place}"
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: spread}
""",
    good="""
Resources:
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 4
      InstancePlatform: Linux/UNIX
      InstanceType: g6.48xlarge
      EndDateType: limited
      EndDate: "2026-12-31T00:00:00Z"
      PlacementGroupArn: !Sub "arn:${AWS::Partition}:ec2:${AWS::Region}:${AWS::AccountId}:placement-group/${Place}"
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: cluster}
""",
)
