"""A zone is written as the name or the id of one."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.zones import ZONE_FORM, check_zone
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import RESERVATION
from cdk_gpu_clusters.template_rules.lookups.network import SUBNET, zone_in
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    zone = zone_in(resource)
    if zone is None or not zone.is_known:
        raise NotApplicable
    yield from faults_of(ZONE_FORM, check_zone(resource.case.template.region, zone.text() or ""), zone)


RULE = TemplateRule(
    rule=ZONE_FORM,
    severity=Severity.ERROR,
    cause="there is no such zone, so that the resource cannot be made",
    fix="give the zone by its name or by its id",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-regions-availability-zones.html",
    on=(SUBNET, RESERVATION),
    looks_at=(
        "AvailabilityZone",
        "AvailabilityZoneId",
    ),
    check=_check,
    bad="""
Resources:
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: us-east-a1}
""",
    good="""
Resources:
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: us-east-1a}
""",
)
