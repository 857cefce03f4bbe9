"""A node group with an image of its own leaves the choice of images to it."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import EKS_NODE_GROUP, launch_of_node_group
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

CUSTOM_IMAGE = define_rule(
    "GPU-EKS-015",
    "a node group whose launch template names an image has AmiType CUSTOM or none, and no version of its own",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    if not launch_of_node_group(resource).data.get("ImageId").exists:
        raise NotApplicable
    for name in ("AmiType", "Version", "ReleaseVersion"):
        value = resource.get(name)
        if value.exists and not (name == "AmiType" and value.text() == "CUSTOM"):
            yield Fault(at=value, got=f"{name} beside ImageId", allowed="one of the two")


RULE = TemplateRule(
    rule=CUSTOM_IMAGE,
    severity=Severity.ERROR,
    cause="EKS takes no image type and no version beside an image of the launch template",
    fix="leave AmiType, Version and ReleaseVersion out, or ImageId",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    on=(EKS_NODE_GROUP,),
    looks_at=(
        "AmiType",
        "Version",
        "ReleaseVersion",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/ImageId",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        ImageId: ami-0123456789abcdef0
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
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        ImageId: ami-0123456789abcdef0
        MetadataOptions: {HttpTokens: required}
  Group:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: training
      NodeRole: arn:aws:iam::111122223333:role/nodes
      Subnets: [subnet-0123456789abcdef0]
      LaunchTemplate: {Id: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
