"""A group of reservations is named by its ARN."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.capacity_checks import RESERVATION_GROUP_ARN, check_capacity
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import reservation_target
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    named = reservation_target(launch).get("CapacityReservationResourceGroupArn")
    if not named.exists or named.reference:
        raise NotApplicable
    if not (given := named.text()):
        raise named.undecidable("it is empty until somebody fills it in")
    terms = CapacityTerms(kind=CapacityKind.RESERVATION, reservation_group_arn=given)
    for _, record in launch.records()[:1]:
        yield from faults_of(RESERVATION_GROUP_ARN, check_capacity(terms, record), named)


RULE = TemplateRule(
    rule=RESERVATION_GROUP_ARN,
    severity=Severity.ERROR,
    cause="that is not the ARN of a resource group",
    fix="give the ARN of the resource group that holds the reservations",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-groups.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget/CapacityReservationResourceGroupArn",
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
          CapacityReservationTarget: {CapacityReservationResourceGroupArn: racks}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        CapacityReservationSpecification:
          CapacityReservationTarget:
            CapacityReservationResourceGroupArn: arn:aws:resource-groups:us-east-1:123456789012:group/racks
""",
)
