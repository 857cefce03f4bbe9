"""Nodes that stand close together use EFA, where their type has it."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.interfaces import EFA_USED
from cdk_gpu_clusters.rules.placement import PlacementStrategy
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import strategies_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, accelerated_launch
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    launch = accelerated_launch(resource)
    if all(strategy is not PlacementStrategy.CLUSTER for _, strategy in strategies_of(launch)):
        raise NotApplicable
    if launch.has_efa():
        return
    for value, record in launch.records():
        if record.network.efa and record.accelerator:
            at = launch.data.get("NetworkInterfaces")
            yield Fault(
                at=at, got=f"no EFA on {value.text()}", allowed=f"{record.network.efa.max_interfaces}"
            )


RULE = TemplateRule(
    rule=EFA_USED,
    severity=Severity.WARNING,
    cause="nodes that are placed close together to exchange data fast exchange it over TCP, without a message",
    fix="add efa-only interfaces, with a security group that allows all traffic with itself",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "LaunchTemplateData/Placement/GroupName",
        "AWS::EC2::PlacementGroup/Strategy",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        Placement: {GroupName: !Ref Place}
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: cluster}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        Placement: {GroupName: !Ref Place}
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: cluster}
""",
)
