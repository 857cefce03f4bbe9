"""Interfaces of PCS nodes stand in the subnet of their node group."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import PCS_NODE_GROUP, launch_of_node_group
from cdk_gpu_clusters.template_rules.lookups.launches import values_at
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

OWN_SUBNET = define_rule(
    "GPU-PCS-011",
    "interfaces in the launch template of a PCS node group stand in its subnet",
    source='AWS PCS guide, "Multiple network interfaces"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    named = values_at(launch_of_node_group(resource).data, "NetworkInterfaces/*/SubnetId")
    own = resource.get("SubnetIds").items()
    if not named or not own:
        raise NotApplicable
    for value in named:
        if not any(value.is_same_as(subnet) for subnet in own):
            yield Fault(
                at=value, got=value.text() or "another subnet", allowed="the subnet of the node group"
            )


RULE = TemplateRule(
    rule=OWN_SUBNET,
    severity=Severity.ERROR,
    cause="PCS launches into the subnet of the node group, and no interface can stand in another one",
    fix="name the same subnet in both, or leave it out of the interfaces",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/working-with_networking_multi-nic.html",
    on=(PCS_NODE_GROUP,),
    looks_at=(
        "SubnetIds",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/NetworkInterfaces/*/SubnetId",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, SubnetId: subnet-0123456789abcdef1, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::PCS::ComputeNodeGroup
    Properties:
      ClusterId: pcs_0123456789
      IamInstanceProfileArn: arn:aws:iam::111122223333:instance-profile/aws-pcs/nodes
      InstanceConfigs: [{InstanceType: g6.xlarge}]
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
          - {DeviceIndex: 0, SubnetId: subnet-0123456789abcdef0, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::PCS::ComputeNodeGroup
    Properties:
      ClusterId: pcs_0123456789
      IamInstanceProfileArn: arn:aws:iam::111122223333:instance-profile/aws-pcs/nodes
      InstanceConfigs: [{InstanceType: g6.xlarge}]
      ScalingConfiguration: {MinInstanceCount: 0, MaxInstanceCount: 4}
      SubnetIds: [subnet-0123456789abcdef0]
      CustomLaunchTemplate: {TemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
