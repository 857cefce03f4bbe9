"""The servers of a Lustre file system reach each other at all ports that FSx documents."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.catalogue.lustre import lustre_ports
from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule
from cdk_gpu_clusters.template_rules.rules.storage._servers import closed_among_servers

SERVER_RANGE = define_rule(
    "GPU-LUS-045",
    "the servers of a Lustre file system reach each other at TCP 1018-1023, too",
    source='FSx for Lustre user guide, "File system access control with Amazon VPC" (stored copy of 2026); templates '
    "that AWS publishes open 1021-1023, or 988 alone, so that FSx does not seem to check it",
)


def _check(resource: Resource) -> Iterator[Fault]:
    yield from closed_among_servers(resource, lustre_ports()[1:])


RULE = TemplateRule(
    rule=SERVER_RANGE,
    severity=Severity.WARNING,
    cause="FSx documents that the servers need this range besides 988",
    fix="let the group of the file system reach itself at TCP 1018-1023, in and out",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "SecurityGroupIds",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    ),
    check=_check,
    bad="""
Resources:
  Servers:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: servers, VpcId: vpc-0123456789abcdef0}
  From988:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      SourceSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: tcp
      FromPort: 988
      ToPort: 988
  From1021:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      SourceSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: tcp
      FromPort: 1021
      ToPort: 1023
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 4800
      SecurityGroupIds: [!GetAtt Servers.GroupId]
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
""",
    good="""
Resources:
  Servers:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: servers, VpcId: vpc-0123456789abcdef0}
  From988:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      SourceSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: tcp
      FromPort: 988
      ToPort: 988
  From1018:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      SourceSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: tcp
      FromPort: 1018
      ToPort: 1023
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 4800
      SecurityGroupIds: [!GetAtt Servers.GroupId]
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
""",
)
