"""A launch into a Capacity Block names no placement group, nor does the group that launches."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.capacity_checks import BLOCK_WITH_PLACEMENT_GROUP
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import market_type_of, placements_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if market_type_of(launch) != "capacity-block":
        raise NotApplicable
    for named in placements_of(launch):
        yield Fault(at=named, got=named.shown(), allowed="none")


RULE = TemplateRule(
    rule=BLOCK_WITH_PLACEMENT_GROUP,
    severity=Severity.ERROR,
    cause="a launch into a Capacity Block may not name a placement group",
    fix="leave the placement group out: the block's instances are already close together",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceMarketOptions/MarketType",
        "LaunchTemplateData/Placement/GroupName",
        "LaunchTemplateData/Placement/GroupId",
        "AWS::AutoScaling::AutoScalingGroup/PlacementGroup",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
        Placement: {GroupName: close}
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
