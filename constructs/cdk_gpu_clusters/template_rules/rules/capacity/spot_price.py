"""A spot price limit is one that EC2 takes."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.capacity_checks import SPOT_PRICE, check_capacity
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    limit = launch.data.get("InstanceMarketOptions", "SpotOptions", "MaxPrice")
    if not limit.exists:
        raise NotApplicable
    terms = CapacityTerms(kind=CapacityKind.SPOT, max_price_usd_per_hour=limit.number())
    for _, record in launch.records()[:1]:
        yield from faults_of(SPOT_PRICE, check_capacity(terms, record), limit)


RULE = TemplateRule(
    rule=SPOT_PRICE,
    severity=Severity.ERROR,
    cause="EC2 refuses a spot price limit of 0.001 US dollars or less",
    fix="leave the limit out to pay at most the on-demand price",
    url="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_SpotMarketOptions.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/InstanceMarketOptions/SpotOptions/MaxPrice",),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        InstanceMarketOptions: {MarketType: spot, SpotOptions: {MaxPrice: 0}}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        InstanceMarketOptions: {MarketType: spot, SpotOptions: {MaxPrice: 0.5}}
""",
)
