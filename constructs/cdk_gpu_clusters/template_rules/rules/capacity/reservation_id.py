"""A reservation is named by its id."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.capacity_checks import RESERVATION_ID, check_capacity
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import reservation_target
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    named = reservation_target(launch).get("CapacityReservationId")
    if not named.exists or named.reference:
        raise NotApplicable
    if not (given := named.text()):
        raise named.undecidable("it is empty until somebody fills it in")
    terms = CapacityTerms(kind=CapacityKind.RESERVATION, reservation_id=given)
    for _, record in launch.records()[:1]:
        yield from faults_of(RESERVATION_ID, check_capacity(terms, record), named)


RULE = TemplateRule(
    rule=RESERVATION_ID,
    severity=Severity.ERROR,
    cause="that is not the id of a Capacity Reservation or Capacity Block",
    fix="give cr- and the hexadecimal digits that DescribeCapacityReservations shows",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget/CapacityReservationId",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: my-reservation}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
""",
)
