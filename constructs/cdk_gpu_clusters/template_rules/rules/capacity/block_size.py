"""A group is not larger than a Capacity Block can be."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.capacity import CapacityTerms
from cdk_gpu_clusters.rules.capacity_checks import BLOCK_SIZE, check_capacity
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import (
    capacity_kind_of,
    market_type_of,
    reservation_target,
)
from cdk_gpu_clusters.template_rules.lookups.groups import most_nodes_of, users_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if market_type_of(launch) != "capacity-block":
        raise NotApplicable
    if reservation_target(launch).get("CapacityReservationResourceGroupArn").exists:
        raise NotApplicable  # a resource group holds several blocks
    records = [record for _, record in launch.records() if not record.ultraservers]
    users = users_of(launch)
    if not (records and users):
        raise NotApplicable
    for user in users:
        for record in records:
            terms = CapacityTerms(kind=capacity_kind_of(launch, record))
            findings = check_capacity(terms, record, node_count=most_nodes_of(user))
            yield from faults_of(BLOCK_SIZE, findings, user, own_fix=True)


RULE = TemplateRule(
    rule=BLOCK_SIZE,
    severity=Severity.ERROR,
    cause="one group takes one Capacity Block, and launches beyond its 64 instances fail",
    fix="make one group for each block",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceMarketOptions/MarketType",
        "LaunchTemplateData/InstanceType",
        "greatest size of the resources that use the launch template",
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
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 65
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
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
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 64
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
