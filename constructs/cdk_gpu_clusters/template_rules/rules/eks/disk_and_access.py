"""Disk and remote access stand in the launch template, where there is one."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import EKS_NODE_GROUP
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

IN_TEMPLATE = define_rule(
    "GPU-EKS-014",
    "a node group with a launch template has no DiskSize and no RemoteAccess",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    if not resource.get("LaunchTemplate").exists:
        raise NotApplicable
    for name in ("DiskSize", "RemoteAccess"):
        if resource.get(name).exists:
            yield Fault(at=resource.get(name), got=f"{name} beside LaunchTemplate", allowed="one of the two")


RULE = TemplateRule(
    rule=IN_TEMPLATE,
    severity=Severity.ERROR,
    cause="EKS takes disk and remote access from the launch template, and refuses them beside it",
    fix="say it in the launch template: BlockDeviceMappings, KeyName",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    on=(EKS_NODE_GROUP,),
    looks_at=(
        "DiskSize",
        "RemoteAccess",
        "LaunchTemplate",
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
      DiskSize: 200
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
