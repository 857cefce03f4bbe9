"""Nodes that mount over EFA and the servers of the file system exchange all traffic."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import mounted_by
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.lookups.network import exchange_all, groups_at, groups_of_launch
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

CLIENT_EFA_TRAFFIC = define_rule(
    "GPU-LUS-046",
    "nodes and the Lustre file system that they mount over EFA allow all traffic with each other",
    source='FSx for Lustre user guide, "File system access control with Amazon VPC", EFA-enabled security groups',
)


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
        value = file_system.get("SecurityGroupIds")
        servers, clients = groups_at(value), groups_of_launch(launch)
        for owners, peers, whose in (
            (clients, servers, "the nodes"),
            (servers, clients, file_system.logical_id),
        ):
            if not exchange_all(owners, peers, at=value):
                got = f"the group of {whose} has no rules for all traffic with the other"
                yield Fault(
                    at=resource, got=got, allowed="IpProtocol -1, both ways, by the ids of the groups"
                )


RULE = TemplateRule(
    rule=CLIENT_EFA_TRAFFIC,
    severity=Severity.ERROR,
    cause="the nodes cannot reach the file system over EFA: rules about ports or addresses do not count for it",
    fix="in both groups, allow all traffic (IpProtocol -1) from and to the id of the other group",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/UserData",
        "LaunchTemplateData/NetworkInterfaces/*/Groups",
        "AWS::FSx::FileSystem/LustreConfiguration/EfaEnabled",
        "AWS::FSx::FileSystem/SecurityGroupIds",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: nodes
      VpcId: vpc-0123456789abcdef0
      SecurityGroupIngress: [{IpProtocol: tcp, FromPort: 988, ToPort: 1023, CidrIp: 0.0.0.0/0}]
      SecurityGroupEgress: [{IpProtocol: -1, CidrIp: 0.0.0.0/0}]
  NodesIn:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Nodes.GroupId
      SourceSecurityGroupId: !GetAtt Nodes.GroupId
      IpProtocol: -1
  NodesOut:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Nodes.GroupId
      DestinationSecurityGroupId: !GetAtt Nodes.GroupId
      IpProtocol: -1
  Servers:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: servers
      VpcId: vpc-0123456789abcdef0
      SecurityGroupIngress: [{IpProtocol: tcp, FromPort: 988, ToPort: 1023, CidrIp: 0.0.0.0/0}]
      SecurityGroupEgress: [{IpProtocol: -1, CidrIp: 0.0.0.0/0}]
  ServersIn:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      SourceSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: -1
  ServersOut:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      DestinationSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: -1
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.1.0/24, AvailabilityZone: us-east-1a}
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 19200
      SecurityGroupIds: [!GetAtt Servers.GroupId]
      SubnetIds: [!Ref Subnet]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        EfaEnabled: true
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
  Launch:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6e.8xlarge
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, SubnetId: !Ref Subnet, Groups: [!GetAtt Nodes.GroupId]}
        UserData:
          Fn::Base64: !Sub |
            #!/bin/sh
            echo "${Corpus.DNSName}@tcp:/${Corpus.LustreMountName} /fsx lustre defaults,_netdev 0 0" >>/etc/fstab
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: nodes
      VpcId: vpc-0123456789abcdef0
      SecurityGroupIngress: [{IpProtocol: tcp, FromPort: 988, ToPort: 1023, CidrIp: 0.0.0.0/0}]
      SecurityGroupEgress: [{IpProtocol: -1, CidrIp: 0.0.0.0/0}]
  NodesIn:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Nodes.GroupId
      SourceSecurityGroupId: !GetAtt Nodes.GroupId
      IpProtocol: -1
  NodesOut:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Nodes.GroupId
      DestinationSecurityGroupId: !GetAtt Nodes.GroupId
      IpProtocol: -1
  Servers:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: servers
      VpcId: vpc-0123456789abcdef0
      SecurityGroupIngress: [{IpProtocol: tcp, FromPort: 988, ToPort: 1023, CidrIp: 0.0.0.0/0}]
      SecurityGroupEgress: [{IpProtocol: -1, CidrIp: 0.0.0.0/0}]
  ServersIn:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      SourceSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: -1
  ServersOut:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      DestinationSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: -1
  Subnet:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.1.0/24, AvailabilityZone: us-east-1a}
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 19200
      SecurityGroupIds: [!GetAtt Servers.GroupId]
      SubnetIds: [!Ref Subnet]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        EfaEnabled: true
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
  Launch:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6e.8xlarge
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, SubnetId: !Ref Subnet, Groups: [!GetAtt Nodes.GroupId]}
        UserData:
          Fn::Base64: !Sub |
            #!/bin/sh
            echo "${Corpus.DNSName}@tcp:/${Corpus.LustreMountName} /fsx lustre defaults,_netdev 0 0" >>/etc/fstab
  ServersFromNodes:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      SourceSecurityGroupId: !GetAtt Nodes.GroupId
      IpProtocol: -1
  ServersToNodes:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      DestinationSecurityGroupId: !GetAtt Nodes.GroupId
      IpProtocol: -1
  NodesFromServers:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Nodes.GroupId
      SourceSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: -1
  NodesToServers:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Nodes.GroupId
      DestinationSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: -1
""",
)
