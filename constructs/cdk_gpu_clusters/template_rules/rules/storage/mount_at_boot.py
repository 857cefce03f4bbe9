"""A Lustre mount comes back when a node boots again."""

from __future__ import annotations

import re
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

AT_BOOT = define_rule(
    "GPU-MNT-010",
    "a Lustre mount comes back when a node boots again, after its network",
    source='FSx for Lustre user guide, "Mounting your Amazon FSx file system automatically"',
)
_MOUNT = re.compile(r"\bmount\b[^\n]*\blustre\b")
# What mounts at later boots: Lustre in fstab, a unit, or a part of user data that runs at every boot.
_LATER = re.compile(
    r"lustre.*/etc/fstab|\.mount\b|/etc/systemd/|bootcmd:|boothook|scripts-user, *always|mounts:"
)
_NETWORK = ("_netdev", "x-systemd.requires", "x-systemd.after")


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    user_data = user_data_of(launch)
    if user_data is None:
        raise NotApplicable
    once = _MOUNT.search(user_data.text)
    if not once and not mounted_by(launch):
        raise NotApplicable
    lines = lustre_lines_of_fstab(user_data)
    if once and not (lines or _LATER.search(user_data.text)):
        yield Fault(
            at=user_data.value, got=once[0].strip(), allowed="a line of /etc/fstab, or a systemd unit"
        )
    for options in lines:
        if not any(option in options for option in _NETWORK):
            yield Fault(
                at=user_data.value,
                got=f"a line of /etc/fstab with {options}",
                allowed="_netdev among its options",
                cause="the mount is tried before the network is up, and the boot may stop there",
            )


RULE = TemplateRule(
    rule=AT_BOOT,
    severity=Severity.WARNING,
    cause="user data runs at the first boot only: after a reboot, jobs write to an empty directory",
    fix="mount by a line of /etc/fstab with _netdev, or by a systemd unit",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/mount-fs-auto-mount-onreboot.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData",),
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
            echo "${Corpus.DNSName}@tcp:/${Corpus.LustreMountName} /fsx lustre defaults 0 0" >>/etc/fstab
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
