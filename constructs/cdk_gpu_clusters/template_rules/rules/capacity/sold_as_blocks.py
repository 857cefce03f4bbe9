"""A launch into a Capacity Block is of a type that is sold as one."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.capacity import CapacityTerms
from cdk_gpu_clusters.rules.capacity_checks import TYPE_WITHOUT_BLOCKS, check_capacity
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import capacity_kind_of, market_type_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if market_type_of(launch) != "capacity-block":
        raise NotApplicable
    for value, record in launch.records():
        terms = CapacityTerms(kind=capacity_kind_of(launch, record))
        yield from faults_of(TYPE_WITHOUT_BLOCKS, check_capacity(terms, record), value)


RULE = TemplateRule(
    rule=TYPE_WITHOUT_BLOCKS,
    severity=Severity.ERROR,
    cause="there is no Capacity Block of this type to launch into",
    fix="use a type that is sold as blocks, or leave the market type out",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceType",
        "LaunchTemplateData/InstanceMarketOptions/MarketType",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.12xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
""",
)
