"""A reservation holds 1 to 1,000 instances."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.reservations import RESERVATION_COUNT, check_new_reservation
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import RESERVATION
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    count = resource.get("InstanceCount")
    findings = check_new_reservation(instance_count=count.integer() or 0, ends_at=None, unlimited=True)
    yield from faults_of(RESERVATION_COUNT, findings, count)


RULE = TemplateRule(
    rule=RESERVATION_COUNT,
    severity=Severity.ERROR,
    cause="EC2 refuses a reservation of that many instances",
    fix="split it into several reservations",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-capacityreservation.html",
    on=(RESERVATION,),
    looks_at=("InstanceCount",),
    check=_check,
    bad="""
Resources:
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 1001
      InstancePlatform: Linux/UNIX
      InstanceType: g6.48xlarge
      EndDateType: limited
      EndDate: "2026-12-31T00:00:00Z"
""",
    good="""
Resources:
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 1000
      InstancePlatform: Linux/UNIX
      InstanceType: g6.48xlarge
      EndDateType: limited
      EndDate: "2026-12-31T00:00:00Z"
""",
)
