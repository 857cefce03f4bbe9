"""Nodes whose launch template names security groups are in that of the cluster, too."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.policy.case import Resource
from cdk_gpu_clusters.policy.lookups.group_traffic import groups_of_launch
from cdk_gpu_clusters.policy.lookups.node_groups import EKS_NODE_GROUP, launch_of_node_group
from cdk_gpu_clusters.policy.rule import Fault, NotApplicable, TemplateRule

CLUSTER_GROUP = define_rule(
    "GPU-EKS-017",
    "a launch template that names security groups names that of the cluster, too",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of_node_group(resource)
    groups = groups_of_launch(launch)
    if not groups:
        raise NotApplicable
    if any(
        (value.reference and value.reference.attribute == "ClusterSecurityGroupId") for value, _ in groups
    ):
        return
    for value, group in groups:
        if group is None:
            raise value.undecidable("this may be the security group of the cluster")
    yield Fault(at=launch.data, got="other security groups only", allowed="ClusterSecurityGroupId among them")


RULE = TemplateRule(
    rule=CLUSTER_GROUP,
    severity=Severity.WARNING,
    cause="EKS does not add the security group of the cluster by itself then: nodes may not reach the control plane",
    fix="add the attribute ClusterSecurityGroupId of the cluster to the groups of every interface",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    on=(EKS_NODE_GROUP,),
    looks_at=(
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/SecurityGroupIds",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/NetworkInterfaces/*/Groups",
    ),
    check=_check,
    bad="""
Resources:
  Cluster:
    Type: AWS::EKS::Cluster
    Properties:
      RoleArn: arn:aws:iam::111122223333:role/cluster
      ResourcesVpcConfig: {SubnetIds: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]}
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        MetadataOptions: {HttpTokens: required}
        SecurityGroupIds: [!GetAtt Fabric.GroupId]
  Group:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: !Ref Cluster
      NodeRole: arn:aws:iam::111122223333:role/nodes
      Subnets: [subnet-0123456789abcdef0]
      AmiType: AL2023_x86_64_NVIDIA
      LaunchTemplate: {Id: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Cluster:
    Type: AWS::EKS::Cluster
    Properties:
      RoleArn: arn:aws:iam::111122223333:role/cluster
      ResourcesVpcConfig: {SubnetIds: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]}
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        MetadataOptions: {HttpTokens: required}
        SecurityGroupIds: [!GetAtt Fabric.GroupId, !GetAtt Cluster.ClusterSecurityGroupId]
  Group:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: !Ref Cluster
      NodeRole: arn:aws:iam::111122223333:role/nodes
      Subnets: [subnet-0123456789abcdef0]
      AmiType: AL2023_x86_64_NVIDIA
      LaunchTemplate: {Id: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
