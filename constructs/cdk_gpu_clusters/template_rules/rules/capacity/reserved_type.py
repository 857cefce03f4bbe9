"""Nodes are of the type that their reservation holds."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.reservations import RESERVED_TYPE, check_reserved_use
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import reservation_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    reservation = reservation_of(launch)
    types = launch.instance_types()
    if reservation is None or not types:
        raise NotApplicable
    reserved = reservation.get("InstanceType")
    for value in types:
        if not value.is_same_as(reserved):
            findings = check_reserved_use(
                reserved_type=reserved.text() or "",
                reserved_count=0,
                instance_type=value.text() or "",
                node_count=0,
            )
            yield from faults_of(RESERVED_TYPE, findings, value)


RULE = TemplateRule(
    rule=RESERVED_TYPE,
    severity=Severity.ERROR,
    cause="the reservation holds instances of another type, so that no launch into it succeeds",
    fix="reserve the type of the nodes",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceType",
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
        "AWS::EC2::CapacityReservation/InstanceType",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.24xlarge
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
""",
)
