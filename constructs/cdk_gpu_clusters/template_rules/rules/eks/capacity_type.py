"""The capacity type of a node group is that of its launch template."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import EKS_NODE_GROUP, market_faults
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

CAPACITY_TYPE = define_rule(
    "GPU-EKS-012",
    "CAPACITY_BLOCK goes with market type capacity-block, and spot is asked of the node group alone",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates" and "Capacity Blocks for ML"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    purchase = resource.get("CapacityType")
    for at, got, allowed in market_faults(
        resource, purchase, block="CAPACITY_BLOCK", spot="CapacityType SPOT"
    ):
        yield Fault(at=at, got=got, allowed=allowed)


RULE = TemplateRule(
    rule=CAPACITY_TYPE,
    severity=Severity.ERROR,
    cause="EKS refuses a node group whose capacity type is not that of its launch template",
    fix="set CapacityType to CAPACITY_BLOCK with MarketType capacity-block, or to SPOT without a market type",
    url="https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html",
    on=(EKS_NODE_GROUP,),
    looks_at=(
        "CapacityType",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        InstanceMarketOptions: {MarketType: spot}
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
