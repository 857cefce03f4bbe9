"""A reservation serves only the launches that name it, or says that it serves all."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import RESERVATION
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

TARGETED = define_rule(
    "GPU-CAP-036",
    "a reservation serves only the launches that name it, or says that it serves all",
    source='AWS EC2 user guide, "On-Demand Capacity Reservations", instance eligibility',
)


def _check(resource: Resource) -> Iterator[Fault]:
    criteria = resource.get("InstanceMatchCriteria")
    if criteria.text() is None:
        yield Fault(at=criteria, got="open, by default", allowed="targeted, or open said aloud")


RULE = TemplateRule(
    rule=TARGETED,
    severity=Severity.WARNING,
    cause="any matching instance of the account takes a place, and the nodes that it is for find it full",
    fix="set InstanceMatchCriteria to targeted, and name the reservation in the launch template",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-capacityreservation.html",
    on=(RESERVATION,),
    looks_at=("InstanceMatchCriteria",),
    check=_check,
    bad="""
Resources:
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 4
      InstancePlatform: Linux/UNIX
      InstanceType: p4d.24xlarge
      EndDateType: limited
      EndDate: "2026-12-31T00:00:00Z"
""",
    good="""
Resources:
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 4
      InstancePlatform: Linux/UNIX
      InstanceType: p4d.24xlarge
      EndDateType: limited
      EndDate: "2026-12-31T00:00:00Z"
      InstanceMatchCriteria: targeted
""",
)
