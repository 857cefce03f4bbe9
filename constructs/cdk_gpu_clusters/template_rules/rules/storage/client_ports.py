"""Nodes and the file system that they mount reach each other."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import mounted_by
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.lookups.network import groups_at, groups_of_launch, missing_ports
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

CLIENT_PORTS = define_rule(
    "GPU-LUS-044",
    "nodes and the Lustre file system that they mount reach each other at TCP 988 and 1018-1023",
    source='FSx for Lustre user guide, "File system access control with Amazon VPC" (stored copy of 2026)',
)


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    mounted = mounted_by(launch)
    if not mounted:
        raise NotApplicable
    for file_system in mounted:
        value = file_system.get("SecurityGroupIds")
        servers, clients = groups_at(value), groups_of_launch(launch)
        ways = ((clients, servers, "from the nodes"), (servers, clients, "to the nodes"))
        for sources, targets, way in ways:
            for missing in missing_ports(sources, targets, at=value):
                got = f"{file_system.logical_id}: nothing that lets {missing} {way}"
                yield Fault(at=resource, got=got, allowed="TCP 988, TCP 1018-1023")


RULE = TemplateRule(
    rule=CLIENT_PORTS,
    severity=Severity.ERROR,
    cause="the mount hangs, or the client is evicted: servers call their clients back",
    fix="let the groups of the nodes and of the file system reach each other at TCP 988 and TCP 1018-1023, both ways",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/UserData",
        "LaunchTemplateData/NetworkInterfaces/*/Groups",
        "LaunchTemplateData/SecurityGroupIds",
        "AWS::FSx::FileSystem/SecurityGroupIds",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  Servers:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: servers
      VpcId: vpc-0123456789abcdef0
      SecurityGroupIngress:
        - {IpProtocol: tcp, FromPort: 988, ToPort: 988, SourceSecurityGroupId: !GetAtt Nodes.GroupId}
        - {IpProtocol: tcp, FromPort: 1018, ToPort: 1023, SourceSecurityGroupId: !GetAtt Nodes.GroupId}
  AmongServers:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      SourceSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: tcp
      FromPort: 988
      ToPort: 1023
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
      StorageCapacity: 4800
      SecurityGroupIds: [!GetAtt Servers.GroupId]
      SubnetIds: [!Ref FileSubnet]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
  Launch:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6e.xlarge
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, SubnetId: !Ref NodeSubnet, Groups: [!GetAtt Nodes.GroupId]}
        UserData:
          Fn::Base64: !Sub |
            #!/bin/sh
            mkdir -p /fsx
            echo "${Corpus.DNSName}@tcp:/${Corpus.LustreMountName} /fsx lustre defaults,_netdev 0 0" >>/etc/fstab
            mount -a
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  Servers:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: servers
      VpcId: vpc-0123456789abcdef0
      SecurityGroupIngress:
        - {IpProtocol: tcp, FromPort: 988, ToPort: 988, SourceSecurityGroupId: !GetAtt Nodes.GroupId}
        - {IpProtocol: tcp, FromPort: 1018, ToPort: 1023, SourceSecurityGroupId: !GetAtt Nodes.GroupId}
  FromServers:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Nodes.GroupId
      SourceSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: tcp
      FromPort: 988
      ToPort: 1023
  AmongServers:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      SourceSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: tcp
      FromPort: 988
      ToPort: 1023
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
      StorageCapacity: 4800
      SecurityGroupIds: [!GetAtt Servers.GroupId]
      SubnetIds: [!Ref FileSubnet]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
  Launch:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6e.xlarge
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, SubnetId: !Ref NodeSubnet, Groups: [!GetAtt Nodes.GroupId]}
        UserData:
          Fn::Base64: !Sub |
            #!/bin/sh
            mkdir -p /fsx
            echo "${Corpus.DNSName}@tcp:/${Corpus.LustreMountName} /fsx lustre defaults,_netdev 0 0" >>/etc/fstab
            mount -a
""",
)
