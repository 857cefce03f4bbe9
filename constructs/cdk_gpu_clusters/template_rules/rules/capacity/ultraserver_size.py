"""A group on an UltraServer block has whole UltraServers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.capacity import CapacityTerms
from cdk_gpu_clusters.rules.capacity_checks import ULTRASERVER_NODES, check_capacity
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import capacity_kind_of, market_type_of
from cdk_gpu_clusters.template_rules.lookups.groups import most_nodes_of, users_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if market_type_of(launch) != "capacity-block":
        raise NotApplicable
    records = [record for _, record in launch.records() if record.ultraservers]
    users = users_of(launch)
    if not (records and users):
        raise NotApplicable
    for user in users:
        for record in records:
            terms = CapacityTerms(kind=capacity_kind_of(launch, record))
            findings = check_capacity(terms, record, node_count=most_nodes_of(user))
            for fault in faults_of(ULTRASERVER_NODES, findings, user, own_fix=True):
                yield replace(fault, cause="")  # launches of a part of the block succeed


RULE = TemplateRule(
    rule=ULTRASERVER_NODES,
    severity=Severity.WARNING,
    cause="an UltraServer block is bought whole: instances of it that nobody launches are paid for, too",
    fix="make the greatest size the number of instances of the UltraServers in the block",
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
        InstanceType: p6e-gb200.36xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget:
            CapacityReservationResourceGroupArn: arn:aws:resource-groups:us-east-1:123456789012:group/racks
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 10
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
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
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 18
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
