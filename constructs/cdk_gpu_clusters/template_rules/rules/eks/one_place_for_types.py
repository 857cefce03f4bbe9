"""Instance types stand in the node group or in its launch template."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import EKS_NODE_GROUP, launch_of_node_group, own_types_of
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

TYPES = define_rule(
    "GPU-EKS-013",
    "instance types stand in the node group or in its launch template, not in both",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    own_types = own_types_of(resource)
    in_template = launch_of_node_group(resource).data.get("InstanceType")
    if own_types and in_template.exists:
        yield Fault(at=own_types[0], got="types in both places", allowed="one of the two")


RULE = TemplateRule(
    rule=TYPES,
    severity=Severity.ERROR,
    cause="EKS refuses a node group that names instance types in both places",
    fix="leave InstanceTypes out of the node group, or InstanceType out of the launch template",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    on=(EKS_NODE_GROUP,),
    looks_at=(
        "InstanceTypes",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceType",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        MetadataOptions: {HttpTokens: required}
  Group:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: training
      NodeRole: arn:aws:iam::111122223333:role/nodes
      Subnets: [subnet-0123456789abcdef0]
      InstanceTypes: [g6.xlarge]
      AmiType: AL2023_x86_64_NVIDIA
      LaunchTemplate: {Id: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        MetadataOptions: {HttpTokens: required}
  Group:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: training
      NodeRole: arn:aws:iam::111122223333:role/nodes
      Subnets: [subnet-0123456789abcdef0]
      AmiType: AL2023_x86_64_NVIDIA
      LaunchTemplate: {Id: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
