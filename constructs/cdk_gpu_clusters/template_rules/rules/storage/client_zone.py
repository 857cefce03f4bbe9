"""Nodes stand in the zone of the file system that they mount."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.lustre_clients import CLIENT_ZONE, check_lustre_client
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import mounted_by
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.lookups.network import is_same_zone, known_zone_of, subnets_of_launch
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    pairs = [
        (node, subnet)
        for file_system in mounted_by(launch)
        for subnet in file_system.get("SubnetIds").items()
        for node in subnets_of_launch(launch)
    ]
    if not pairs:
        raise NotApplicable
    for node, subnet in pairs:
        if node.identity() != subnet.identity() and not is_same_zone(
            known_zone_of(subnet), known_zone_of(node)
        ):
            zone, other = known_zone_of(node).text() or "", known_zone_of(subnet).text()
            for finding in check_lustre_client(zones=[zone], file_system_zone=other):
                yield Fault(at=node, got=finding.got, allowed=finding.allowed)


RULE = TemplateRule(
    rule=CLIENT_ZONE,
    severity=Severity.WARNING,
    cause="nodes mount a file system of another Availability Zone: slower, charged by the gigabyte, and never over EFA",
    fix="put the nodes and the file system into one subnet or zone",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/efa-file-systems.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/UserData",
        "AWS::FSx::FileSystem/SubnetIds",
        "AWS::EC2::Subnet/AvailabilityZone",
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
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.2.0/24, AvailabilityZone: us-east-1b}
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
