"""Nodes that mount a file system over EFA have addresses of its block."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.lustre_clients import CLIENT_NETWORK, check_lustre_client
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.file_systems import mounted_by
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.lookups.network import subnet_of, subnets_of_launch
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    mounted = mounted_by(launch)
    if not mounted:
        raise NotApplicable
    if not launch.has_efa():
        return  # it mounts over TCP
    for file_system in mounted:
        if not file_system.get("LustreConfiguration", "EfaEnabled").flag():
            continue
        for own in file_system.get("SubnetIds").items():
            for node in subnets_of_launch(launch):
                if node.identity() == own.identity():
                    continue
                blocks = _block_of(node), _block_of(own)
                for finding in check_lustre_client(cidrs=blocks[:1], file_system_cidr=blocks[1], efa=True):
                    yield Fault(at=node, got=finding.got, allowed=finding.allowed)


def _block_of(value: Value) -> str:
    """The IPv4 block of a subnet."""
    subnet = subnet_of(value)
    block = None if subnet is None else subnet.get("CidrBlock").text()
    if block is None:
        raise value.undecidable("the block of this subnet stands in no part of the template")
    try:
        return str(ip_network(block))
    except ValueError:
        raise value.undecidable(f"{block!r} is no block of addresses") from None


RULE = TemplateRule(
    rule=CLIENT_NETWORK,
    severity=Severity.ERROR,
    cause="nodes that mount over EFA have addresses of another /16 block than the file system",
    fix="put the nodes and the file system into subnets of one /16 block",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/efa-file-systems.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/UserData",
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "AWS::FSx::FileSystem/SubnetIds",
        "AWS::EC2::Subnet/CidrBlock",
    ),
    check=_check,
    bad="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  FromIngress:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      SourceSecurityGroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
  FromEgress:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      DestinationSecurityGroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
  FileSubnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.1.0/24, AvailabilityZone: us-east-1a}
  NodeSubnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.1.2.0/24, AvailabilityZone: us-east-1a}
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 19200
      SecurityGroupIds: [!GetAtt Fabric.GroupId]
      SubnetIds: [!Ref FileSubnet]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        EfaEnabled: true
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6e.8xlarge
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, SubnetId: !Ref NodeSubnet, Groups: [!GetAtt Fabric.GroupId]}
        UserData:
          Fn::Base64: !Sub |
            #!/bin/sh
            echo "${Corpus.DNSName}@tcp:/${Corpus.LustreMountName} /fsx lustre defaults,_netdev 0 0" >>/etc/fstab
""",
    good="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  FromIngress:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      SourceSecurityGroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
  FromEgress:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      DestinationSecurityGroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
  FileSubnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.1.0/24, AvailabilityZone: us-east-1a}
  NodeSubnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.2.0/24, AvailabilityZone: us-east-1a}
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 19200
      SecurityGroupIds: [!GetAtt Fabric.GroupId]
      SubnetIds: [!Ref FileSubnet]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        EfaEnabled: true
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6e.8xlarge
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, SubnetId: !Ref NodeSubnet, Groups: [!GetAtt Fabric.GroupId]}
        UserData:
          Fn::Base64: !Sub |
            #!/bin/sh
            echo "${Corpus.DNSName}@tcp:/${Corpus.LustreMountName} /fsx lustre defaults,_netdev 0 0" >>/etc/fstab
""",
)
