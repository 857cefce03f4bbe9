"""The user data of PCS nodes is a MIME archive."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import (
    PCS_NODE_GROUP,
    has_plain_user_data,
    launch_of_node_group,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

ARCHIVE = define_rule(
    "GPU-PCS-015",
    "the user data of PCS nodes is a MIME archive, which PCS adds its part to",
    source='AWS PCS guide, "Working with Amazon EC2 user data"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of_node_group(resource)
    if not launch.data.get("UserData").exists:
        raise NotApplicable
    plain = has_plain_user_data(launch)
    if plain is not None:
        yield Fault(at=plain, got="a text that does not start with MIME-Version", allowed="a MIME archive")


RULE = TemplateRule(
    rule=ARCHIVE,
    severity=Severity.ERROR,
    cause="PCS refuses user data that it cannot add its own part to",
    fix="write a multipart MIME archive: text/cloud-config for what comes before the node registers",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/working-with_ec2-user-data.html",
    on=(PCS_NODE_GROUP,),
    looks_at=("AWS::EC2::LaunchTemplate/LaunchTemplateData/UserData",),
    check=_check,
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
          - {DeviceIndex: 1, NetworkCardIndex: 3, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
        UserData:
          Fn::Base64: |
            #!/bin/sh
            echo hello
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
        UserData:
          Fn::Base64: |
            MIME-Version: 1.0
            Content-Type: multipart/mixed; boundary="//"

            --//
            Content-Type: text/x-shellscript

            echo hello

            --//--
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
