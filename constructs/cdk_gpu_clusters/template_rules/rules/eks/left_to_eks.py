"""The launch template of a managed node group leaves to EKS what EKS sets."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import EKS_NODE_GROUP, launch_of_node_group
from cdk_gpu_clusters.template_rules.lookups.launches import values_at
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

LEFT_TO_EKS = define_rule(
    "GPU-EKS-011",
    "the launch template of a managed node group leaves subnet, role, shutdown, hibernation and requirements to EKS",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
)
_FORBIDDEN = (
    "NetworkInterfaces/*/SubnetId",
    "IamInstanceProfile",
    "InstanceInitiatedShutdownBehavior",
    "HibernationOptions",
    "InstanceRequirements",
)


def _check(resource: Resource) -> Iterator[Fault]:
    data = launch_of_node_group(resource).data
    for path in _FORBIDDEN:
        for value in values_at(data, path):
            yield Fault(at=value, got=path.rpartition("/")[2], allowed="nothing")


RULE = TemplateRule(
    rule=LEFT_TO_EKS,
    severity=Severity.ERROR,
    cause="EKS refuses a launch template that says what EKS sets itself",
    fix="leave it out: Subnets, NodeRole and InstanceTypes of the node group say it",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    on=(EKS_NODE_GROUP,),
    looks_at=(
        "AWS::EC2::LaunchTemplate/LaunchTemplateData",
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
        IamInstanceProfile: {Name: nodes}
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
