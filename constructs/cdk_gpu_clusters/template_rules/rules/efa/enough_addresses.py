"""A subnet has an address for every interface of the nodes in it."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.ip_budget import ENOUGH_ADDRESSES, IpDemand, check_ip_budget
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import most_nodes_of, users_of
from cdk_gpu_clusters.template_rules.lookups.launches import Launch, launches, layout_of
from cdk_gpu_clusters.template_rules.lookups.network import SUBNET, subnet_of, subnets_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    demands = [
        IpDemand(nodes=most_nodes_of(user), addresses_per_node=_addresses_of(launch), name=user.logical_id)
        for launch in launches(resource.case)
        if launch.has_efa()
        for user in users_of(launch)
        if _stands_in(user, resource)
    ]
    if not demands:
        raise NotApplicable
    cidr = resource.get("CidrBlock")
    yield from faults_of(ENOUGH_ADDRESSES, check_ip_budget(cidr.text() or "", demands), cidr)


def _addresses_of(launch: Launch) -> int:
    return sum(interface.has_ip for interface in layout_of(launch))


def _stands_in(user: Resource, subnet: Resource) -> bool:
    """Whether a subnet is the only one of a group."""
    subnets = subnets_of(user)
    return bool(subnets) and all(subnet_of(value) == subnet for value in subnets)


RULE = TemplateRule(
    rule=ENOUGH_ADDRESSES,
    severity=Severity.ERROR,
    cause="launches fail when the subnet is used up; an interface of type efa takes an address, efa-only takes none",
    fix="enlarge the subnet, or make all but the primary interface efa-only",
    url="https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html",
    on=(SUBNET,),
    looks_at=(
        "CidrBlock",
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "greatest size of the resources that use the launch template",
    ),
    check=_check,
    bad="""
Resources:
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/27}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {NetworkCardIndex: 0, DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {NetworkCardIndex: 1, DeviceIndex: 1, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {NetworkCardIndex: 2, DeviceIndex: 1, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {NetworkCardIndex: 3, DeviceIndex: 1, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 8
      MaxSize: 8
      VPCZoneIdentifier: [!Ref Subnet]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/27}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {NetworkCardIndex: 0, DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {NetworkCardIndex: 1, DeviceIndex: 1, InterfaceType: efa-only, Groups: [sg-0123456789abcdef0]}
          - {NetworkCardIndex: 2, DeviceIndex: 1, InterfaceType: efa-only, Groups: [sg-0123456789abcdef0]}
          - {NetworkCardIndex: 3, DeviceIndex: 1, InterfaceType: efa-only, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 8
      MaxSize: 8
      VPCZoneIdentifier: [!Ref Subnet]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
