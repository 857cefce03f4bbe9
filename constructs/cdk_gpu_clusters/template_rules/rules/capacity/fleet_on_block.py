"""An EC2 Fleet asks for a Capacity Block as EC2 documents it."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import market_type_of
from cdk_gpu_clusters.template_rules.lookups.launches import launch_of, template_used_by, values_at
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

FLEET_ON_BLOCK = define_rule(
    "GPU-CAP-037",
    "an EC2 Fleet on a Capacity Block is of type instant, and asks for nothing else",
    source='AWS EC2 user guide, "Tutorial: Configure your EC2 Fleet to launch instances into Capacity Blocks"',
)
_BLOCK = "capacity-block"
_OTHER_TARGETS = ("OnDemandTargetCapacity", "SpotTargetCapacity")


def _check(resource: Resource) -> Iterator[Fault]:
    target = resource.get("TargetCapacitySpecification")
    kind = target.get("DefaultTargetCapacityType")
    markets = {market or "no market type" for market in _markets_of(resource)}
    if _BLOCK not in {kind.text(), *markets}:
        raise NotApplicable
    if markets - {_BLOCK}:
        at = resource.get("LaunchTemplateConfigs")
        yield Fault(at=at, got=f"launch templates with {' and '.join(sorted(markets))}", allowed=_BLOCK)
    if kind.text() != _BLOCK:
        yield Fault(at=kind, got=kind.text() or "on-demand, by default", allowed=_BLOCK)
    if resource.get("Type").text() != "instant":
        yield Fault(
            at=resource.get("Type"),
            got=resource.get("Type").text() or "maintain, by default",
            allowed="instant",
        )
    for name in _OTHER_TARGETS:
        if target.get(name).integer():
            yield Fault(at=target.get(name), got=name, allowed="TotalTargetCapacity alone")


def _markets_of(fleet: Resource) -> Iterator[str | None]:
    for specification in values_at(fleet.properties, "LaunchTemplateConfigs/*/LaunchTemplateSpecification"):
        template = template_used_by(specification)
        if template is None:
            raise specification.undecidable("this launch template stands in no part of the template")
        yield market_type_of(launch_of(template))


RULE = TemplateRule(
    rule=FLEET_ON_BLOCK,
    severity=Severity.ERROR,
    cause="EC2 refuses a fleet that launches into a Capacity Block in any other way",
    fix="set Type to instant and DefaultTargetCapacityType to capacity-block, with launch templates of one block only",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/"
    "ec2-fleet-launch-instances-capacity-blocks-walkthrough.html",
    on=("AWS::EC2::EC2Fleet",),
    looks_at=(
        "Type",
        "TargetCapacitySpecification",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions/MarketType",
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
  Fleet:
    Type: AWS::EC2::EC2Fleet
    Properties:
      Type: maintain
      LaunchTemplateConfigs:
        - LaunchTemplateSpecification: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
      TargetCapacitySpecification:
        TotalTargetCapacity: 4
        DefaultTargetCapacityType: capacity-block
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
  Fleet:
    Type: AWS::EC2::EC2Fleet
    Properties:
      Type: instant
      LaunchTemplateConfigs:
        - LaunchTemplateSpecification: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
      TargetCapacitySpecification:
        TotalTargetCapacity: 4
        DefaultTargetCapacityType: capacity-block
""",
)
