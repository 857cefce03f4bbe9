"""A mount over EFA waits for the set-up of EFA."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import mounted_by
from cdk_gpu_clusters.template_rules.lookups.launches import (
    LAUNCHES,
    launch_of,
    lustre_lines_of_fstab,
    user_data_of,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

AFTER_EFA = define_rule(
    "GPU-MNT-011",
    "a Lustre mount over EFA waits for the service that sets EFA up",
    source='FSx for Lustre user guide, "Mounting your Amazon FSx file system automatically"; '
    "awslabs/awsome-distributed-ai 1208",
)
_SERVICE = "configure-efa-fsx-lustre-client.service"


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    mounted = mounted_by(launch)
    user_data = user_data_of(launch)
    if user_data is None or not mounted:
        raise NotApplicable
    if not launch.has_efa():
        return  # it mounts over TCP
    if not any(one.get("LustreConfiguration", "EfaEnabled").flag() for one in mounted):
        return
    for options in lustre_lines_of_fstab(user_data):
        if _SERVICE not in options:
            yield Fault(
                at=user_data.value,
                got=f"a line of /etc/fstab with {options}",
                allowed=f"x-systemd.requires={_SERVICE},x-systemd.after={_SERVICE} among its options",
            )


RULE = TemplateRule(
    rule=AFTER_EFA,
    severity=Severity.WARNING,
    cause="the mount may come before EFA is set up, and runs over TCP then; no message says so",
    fix=f"add x-systemd.automount, and x-systemd.requires and x-systemd.after with {_SERVICE}",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/mount-fs-auto-mount-onreboot.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/UserData: lines of /etc/fstab",
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "AWS::FSx::FileSystem/LustreConfiguration/EfaEnabled",
    ),
    check=_check,
    bad="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes and servers, VpcId: vpc-0123456789abcdef0}
  FromItself:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      SourceSecurityGroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
  ToItself:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      DestinationSecurityGroupId: !GetAtt Fabric.GroupId
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
      SecurityGroupIds: [!GetAtt Fabric.GroupId]
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
          - {DeviceIndex: 0, InterfaceType: efa, SubnetId: !Ref Subnet, Groups: [!GetAtt Fabric.GroupId]}
        UserData:
          Fn::Base64: !Sub |
            #!/bin/sh
            echo "${Corpus.DNSName}@tcp:/${Corpus.LustreMountName} /fsx lustre defaults,_netdev 0 0" >>/etc/fstab
""",
    good="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes and servers, VpcId: vpc-0123456789abcdef0}
  FromItself:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      SourceSecurityGroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
  ToItself:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      DestinationSecurityGroupId: !GetAtt Fabric.GroupId
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
      SecurityGroupIds: [!GetAtt Fabric.GroupId]
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
          - {DeviceIndex: 0, InterfaceType: efa, SubnetId: !Ref Subnet, Groups: [!GetAtt Fabric.GroupId]}
        UserData:
          Fn::Base64: !Sub |
            #!/bin/sh
            cat >>/etc/fstab <<'EOF'
            ${Corpus.DNSName}@tcp:/fsx /fsx lustre _netdev,x-systemd.after=configure-efa-fsx-lustre-client.service 0 0
            EOF
""",
)
