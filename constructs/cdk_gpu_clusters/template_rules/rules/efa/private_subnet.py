"""Nodes with several interfaces stand in a private subnet."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.fleet import EFA_PUBLIC_SUBNET, check_public_subnet
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.lookups.network import subnet_of, subnets_by_user
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of
from cdk_gpu_clusters.template_rules.rules.efa._interfaces import URL


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    count = len(launch.interfaces())
    if count < 2:
        raise NotApplicable
    for value in (value for values in subnets_by_user(launch) for value in values):
        subnet = subnet_of(value)
        if subnet is None:
            raise value.undecidable("this subnet is in no part of the template")
        public = bool(subnet.get("MapPublicIpOnLaunch").flag())
        yield from faults_of(
            EFA_PUBLIC_SUBNET, check_public_subnet(interface_count=count, public=public), value
        )


RULE = TemplateRule(
    rule=EFA_PUBLIC_SUBNET,
    severity=Severity.ERROR,
    cause="EC2 gives a node with several interfaces no public address: in a public subnet it reaches nothing",
    fix="choose a private subnet with a NAT gateway or endpoints",
    url=URL,
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/NetworkInterfaces",
        "subnets of the resources that use the launch template",
        "AWS::EC2::Subnet/MapPublicIpOnLaunch",
    ),
    check=_check,
    bad="""
Resources:
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22, MapPublicIpOnLaunch: true}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: interface, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, InterfaceType: efa-only, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 4
      MaxSize: 4
      VPCZoneIdentifier: [!Ref Subnet]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/22}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: interface, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, InterfaceType: efa-only, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 4
      MaxSize: 4
      VPCZoneIdentifier: [!Ref Subnet]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
