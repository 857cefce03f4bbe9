"""An UltraServer type is launched into an UltraServer Capacity Block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.capacity import CapacityTerms
from cdk_gpu_clusters.rules.capacity_checks import ONLY_ULTRASERVER, check_capacity
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import capacity_kind_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, accelerated_launch
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = accelerated_launch(resource)
    rack_types = [(value, record) for value, record in launch.records() if record.ultraservers]
    if not rack_types:
        raise NotApplicable
    for value, record in rack_types:
        terms = CapacityTerms(kind=capacity_kind_of(launch, record))
        for fault in faults_of(ONLY_ULTRASERVER, check_capacity(terms, record), value, own_fix=True):
            yield replace(fault, allowed="MarketType capacity-block")


RULE = TemplateRule(
    rule=ONLY_ULTRASERVER,
    severity=Severity.ERROR,
    cause="the type is sold only as UltraServer Capacity Block: it cannot be launched otherwise",
    fix="set MarketType to capacity-block, and name the resource group of the block",
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
        InstanceType: p6e-gb200.36xlarge
        CapacityReservationSpecification:
          CapacityReservationTarget:
            CapacityReservationResourceGroupArn: arn:aws:resource-groups:us-east-1:123456789012:group/racks
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p6e-gb200.36xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget:
            CapacityReservationResourceGroupArn: arn:aws:resource-groups:us-east-1:123456789012:group/racks
""",
)
