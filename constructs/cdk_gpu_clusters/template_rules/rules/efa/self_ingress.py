"""EFA interfaces carry a group that admits all traffic from itself."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.lookups.network import ingress_rules
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.efa._groups import LOOKS_AT, URL, checks_groups

SELF_INGRESS = define_rule(
    "GPU-EFA-030",
    "EFA interfaces carry a security group that admits all traffic from itself",
    source='AWS EC2 user guide, "Get started with EFA and MPI", step 1; gardener/gardener-extension-provider-aws 1832',
)

RULE = TemplateRule(
    rule=SELF_INGRESS,
    severity=Severity.ERROR,
    cause="nodes drop EFA packets of each other, and every collective operation hangs",
    fix="add a SecurityGroupIngress resource: IpProtocol -1, SourceSecurityGroupId the same group",
    url=URL,
    on=LAUNCHES,
    looks_at=(*LOOKS_AT, "AWS::EC2::SecurityGroup/SecurityGroupIngress", "AWS::EC2::SecurityGroupIngress"),
    check=checks_groups(ingress_rules, "no rule that admits all traffic from the same group"),
    bad="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
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
    good="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  FromEgress:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
      DestinationSecurityGroupId: !GetAtt Fabric.GroupId
  FromIngress:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
      SourceSecurityGroupId: !GetAtt Fabric.GroupId
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [!GetAtt Fabric.GroupId]}
""",
)
