"""Nodes with EFA stand in a cluster placement group."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.placement import EFA_APART, check_placement
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import strategies_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, efa_launch
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = efa_launch(resource)
    for value, strategy in strategies_of(launch):
        for _, record in launch.records():
            findings = check_placement(record, strategy, efa=True)
            yield from faults_of(EFA_APART, findings, value, own_fix=True)


RULE = TemplateRule(
    rule=EFA_APART,
    severity=Severity.WARNING,
    cause="this strategy puts nodes apart that exchange EFA traffic",
    fix="use the strategy cluster",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/Placement/GroupName",
        "AWS::EC2::PlacementGroup/Strategy",
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
    ),
    check=_check,
    bad="""
Resources:
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: spread}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        Placement: {GroupName: !Ref Place}
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
""",
    good="""
Resources:
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: cluster}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        Placement: {GroupName: !Ref Place}
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
""",
)
