"""Nodes are launched into the placement group that their reservation was made in."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.capacity_checks import FOREIGN_PLACEMENT_GROUP
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import (
    market_type_of,
    placement_group_in_arn,
    placement_group_of,
    placements_of,
    reservation_of,
    reservation_target,
)
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    target = reservation_target(launch)
    if not target.exists or market_type_of(launch) == "capacity-block":
        raise NotApplicable  # a Capacity Block is in no group
    reservation = reservation_of(launch)
    named = placements_of(launch)
    if reservation is None:
        raise target.undecidable(
            "which placement group the reservation was made in stands in no part of the template"
        )
    arn = reservation.get("PlacementGroupArn")
    if not arn.exists:
        for value in named:
            yield Fault(at=value, got="a placement group", allowed="none, as the reservation")
        return
    group = placement_group_in_arn(arn)
    for value in named:  # without one, the reservation alone decides where the nodes stand
        other = placement_group_of(value)
        if group is None or other is None:
            raise value.undecidable("this placement group stands in no part of the template")
        if other != group:
            yield Fault(at=value, got=other.logical_id, allowed=group.logical_id)


RULE = TemplateRule(
    rule=FOREIGN_PLACEMENT_GROUP,
    severity=Severity.ERROR,
    cause="the reservation was not made in that placement group, so that a part of it cannot be launched",
    fix="name the placement group of the reservation, or none",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-cpg.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/Placement/GroupName",
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
        "LaunchTemplateData/InstanceMarketOptions/MarketType",
        "AWS::EC2::CapacityReservation/PlacementGroupArn",
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
        Placement: {GroupName: !Ref Place}
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: cluster}
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 4
      InstancePlatform: Linux/UNIX
      InstanceType: g6.48xlarge
      EndDateType: limited
      EndDate: "2026-12-31T00:00:00Z"
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
        Placement: {GroupName: !Ref Place}
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: cluster}
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
""",
)
