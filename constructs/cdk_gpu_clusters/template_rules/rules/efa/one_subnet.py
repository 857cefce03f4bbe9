"""The nodes of an EFA group stand in one subnet."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.fabric import ONE_SUBNET
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, efa_launch
from cdk_gpu_clusters.template_rules.lookups.network import leave_the_subnet
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    for subnet in leave_the_subnet(efa_launch(resource)):
        yield Fault(at=subnet, got="a second subnet", allowed="one subnet")


RULE = TemplateRule(
    rule=ONE_SUBNET,
    severity=Severity.INFO,
    cause="nodes of one job may land in different subnets: EC2 allows it in one zone, older guides and eksctl do not",
    fix="name one subnet, large enough for every node",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "subnets of the resources that use the launch template",
    ),
    check=_check,
    bad="""
Resources:
  First:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: us-east-1a}
  Second:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.4.0/22, AvailabilityZone: us-east-1a}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 4
      MaxSize: 4
      VPCZoneIdentifier: [!Ref First, !Ref Second]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  First:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, AvailabilityZone: us-east-1a}
  Second:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.4.0/22, AvailabilityZone: us-east-1a}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 4
      MaxSize: 4
      VPCZoneIdentifier: [!Ref First]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
