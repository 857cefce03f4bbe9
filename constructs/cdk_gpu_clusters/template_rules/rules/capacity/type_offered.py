"""The instance type is known to be offered where the nodes stand."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.zones import TYPE_OFFERED, check_zone
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, accelerated_launch
from cdk_gpu_clusters.template_rules.lookups.network import known_zone_of, subnets_by_user
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    launch = accelerated_launch(resource)
    subnets = [value for values in subnets_by_user(launch) for value in values]
    if not subnets:
        raise NotApplicable
    for value in subnets:
        zone = known_zone_of(value).text() or ""
        for _, record in launch.records():
            yield from faults_of(TYPE_OFFERED, check_zone(None, zone, record), value)


RULE = TemplateRule(
    rule=TYPE_OFFERED,
    severity=Severity.WARNING,
    cause="launches fail where the type is not offered",
    fix="ask EC2 (DescribeInstanceTypeOfferings) with the account that deploys",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-discovery.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceType",
        "subnets of the resources that use the launch template",
        "AWS::EC2::Subnet/AvailabilityZone",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4de.24xlarge
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: eu-west-1a}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [!Ref Subnet]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4de.24xlarge
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: us-east-1a}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [!Ref Subnet]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
