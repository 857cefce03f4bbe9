"""Nodes of AWS PCS have device index 0 on their primary interface alone."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.interfaces import PCS_DEVICE_INDEX
from cdk_gpu_clusters.template_rules.lookups.groups import PCS_NODE_GROUP
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.pcs._form import LOOKS_AT, URL, checks_form

RULE = TemplateRule(
    rule=PCS_DEVICE_INDEX,
    severity=Severity.WARNING,
    cause="the PCS guide gives device index 0 to the primary interface alone",
    fix="use device index 1 on every card but card 0",
    url=URL,
    on=(PCS_NODE_GROUP,),
    looks_at=LOOKS_AT,
    check=checks_form(PCS_DEVICE_INDEX),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 2, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 0, NetworkCardIndex: 3, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::PCS::ComputeNodeGroup
    Properties:
      ClusterId: pcs_0123456789
      IamInstanceProfileArn: arn:aws:iam::111122223333:instance-profile/aws-pcs/nodes
      InstanceConfigs: [{InstanceType: p4d.24xlarge}]
      ScalingConfiguration: {MinInstanceCount: 0, MaxInstanceCount: 4}
      SubnetIds: [subnet-0123456789abcdef0]
      CustomLaunchTemplate: {TemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 2, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 3, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::PCS::ComputeNodeGroup
    Properties:
      ClusterId: pcs_0123456789
      IamInstanceProfileArn: arn:aws:iam::111122223333:instance-profile/aws-pcs/nodes
      InstanceConfigs: [{InstanceType: p4d.24xlarge}]
      ScalingConfiguration: {MinInstanceCount: 0, MaxInstanceCount: 4}
      SubnetIds: [subnet-0123456789abcdef0]
      CustomLaunchTemplate: {TemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
