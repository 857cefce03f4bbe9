"""EFA interfaces carry a group that sends all traffic to itself; a rule for all addresses is not enough."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.lookups.network import egress_rules
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.efa._groups import LOOKS_AT, URL, checks_groups

SELF_EGRESS = define_rule(
    "GPU-EFA-031",
    "EFA interfaces carry a security group that sends all traffic to itself",
    source='AWS EC2 user guide, "Get started with EFA and MPI", step 1; gardener/gardener-extension-provider-aws 1832',
)

RULE = TemplateRule(
    rule=SELF_EGRESS,
    severity=Severity.ERROR,
    cause="a rule for 0.0.0.0/0 does not cover EFA traffic, which is no IP traffic: every collective operation hangs",
    fix="add a SecurityGroupEgress resource: IpProtocol -1, DestinationSecurityGroupId the same group",
    url=URL,
    on=LAUNCHES,
    looks_at=(*LOOKS_AT, "AWS::EC2::SecurityGroup/SecurityGroupEgress", "AWS::EC2::SecurityGroupEgress"),
    check=checks_groups(egress_rules, "no rule that sends all traffic to the same group"),
    bad="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  FromIngress:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
      SourceSecurityGroupId: !GetAtt Fabric.GroupId
  ToAddresses:
    Type: AWS::EC2::SecurityGroupEgress
    Properties: {GroupId: !GetAtt Fabric.GroupId, IpProtocol: -1, CidrIp: 0.0.0.0/0}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [!GetAtt Fabric.GroupId]}
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
      IpProtocol: -1
      SourceSecurityGroupId: !GetAtt Fabric.GroupId
  ToAddresses:
    Type: AWS::EC2::SecurityGroupEgress
    Properties: {GroupId: !GetAtt Fabric.GroupId, IpProtocol: -1, CidrIp: 0.0.0.0/0}
  FromEgress:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
      DestinationSecurityGroupId: !GetAtt Fabric.GroupId
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [!GetAtt Fabric.GroupId]}
""",
)
