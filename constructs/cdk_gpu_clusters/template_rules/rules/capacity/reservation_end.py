"""A reservation has an end date, or says that it has none."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.reservations import RESERVATION_END
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import RESERVATION
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    kind, end = resource.get("EndDateType"), resource.get("EndDate")
    said = kind.text()
    if said == "unlimited" and end.exists:
        yield Fault(at=end, got="unlimited, and an end date", allowed="one of the two")
    if said == "limited" and not end.exists:
        yield Fault(at=kind, got="limited, and no end date", allowed="EndDate")
    if said is None and not end.exists:
        yield Fault(at=kind, got="neither", allowed="EndDateType limited with EndDate, or unlimited")


RULE = TemplateRule(
    rule=RESERVATION_END,
    severity=Severity.WARNING,
    cause="a reservation bills whether it is used or not, and one that is forgotten bills for ever",
    fix="set EndDateType to limited and give EndDate, or set it to unlimited",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-capacityreservation.html",
    on=(RESERVATION,),
    looks_at=(
        "EndDateType",
        "EndDate",
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
""",
)
