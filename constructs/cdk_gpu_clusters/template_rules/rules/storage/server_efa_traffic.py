"""The servers of a Lustre file system with EFA exchange all traffic."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_only
from cdk_gpu_clusters.template_rules.lookups.network import exchange_all, groups_at
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

EFA_TRAFFIC = define_rule(
    "GPU-LUS-043",
    "the group of a Lustre file system with EFA allows all traffic with itself, in and out",
    source='FSx for Lustre user guide, "File system access control with Amazon VPC", EFA-enabled security groups',
)


def _check(resource: Resource) -> Iterator[Fault]:
    if not lustre_only(resource).get("LustreConfiguration", "EfaEnabled").flag():
        raise NotApplicable
    value = resource.get("SecurityGroupIds")
    groups = groups_at(value)
    if not exchange_all(groups, groups, at=value):
        yield Fault(
            at=value, got="no rules for all traffic within the same group", allowed="IpProtocol -1, both ways"
        )


RULE = TemplateRule(
    rule=EFA_TRAFFIC,
    severity=Severity.ERROR,
    cause="FSx refuses a file system with EFA whose group does not allow it: addresses do not count for EFA",
    fix="add SecurityGroupIngress and SecurityGroupEgress with IpProtocol -1 and the same group at both ends",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "LustreConfiguration/EfaEnabled",
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
  FromIngress:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      SourceSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: -1
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 19200
      SecurityGroupIds: [!GetAtt Servers.GroupId]
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        EfaEnabled: true
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
""",
    good="""
Resources:
  Servers:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: servers, VpcId: vpc-0123456789abcdef0}
  FromIngress:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      SourceSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: -1
  FromEgress:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Servers.GroupId
      DestinationSecurityGroupId: !GetAtt Servers.GroupId
      IpProtocol: -1
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 19200
      SecurityGroupIds: [!GetAtt Servers.GroupId]
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        EfaEnabled: true
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
""",
)
