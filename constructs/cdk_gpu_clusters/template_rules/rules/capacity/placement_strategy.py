"""The instance type supports the strategy of its placement group."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.placement import STRATEGY_OF_TYPE, check_placement
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import strategies_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    for value, strategy in strategies_of(launch):
        for _, record in launch.records():
            yield from faults_of(STRATEGY_OF_TYPE, check_placement(record, strategy), value)


RULE = TemplateRule(
    rule=STRATEGY_OF_TYPE,
    severity=Severity.ERROR,
    cause="EC2 refuses to launch the type into such a placement group",
    fix="choose a supported strategy, or none",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/Placement/GroupName",
        "AWS::EC2::PlacementGroup/Strategy",
        "LaunchTemplateData/InstanceType",
    ),
    check=_check,
    bad="""
Resources:
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: cluster}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: t3.xlarge
        Placement: {GroupName: !Ref Place}
""",
    good="""
Resources:
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: spread}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: t3.xlarge
        Placement: {GroupName: !Ref Place}
""",
)
