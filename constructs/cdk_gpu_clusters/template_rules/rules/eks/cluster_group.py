"""Nodes whose launch template names security groups are in that of the cluster, too."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Case, Resource, Value
from cdk_gpu_clusters.template_rules.lookups.groups import EKS_NODE_GROUP, launch_of_node_group
from cdk_gpu_clusters.template_rules.lookups.launches import values_at
from cdk_gpu_clusters.template_rules.lookups.network import (
    INGRESS,
    Groups,
    group_of,
    groups_of_launch,
    ingress_rules,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

CLUSTER_GROUP = define_rule(
    "GPU-EKS-017",
    "a launch template that names security groups names that of the cluster, too",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
)


_NAMED = "ResourcesVpcConfig/SecurityGroupIds/*"


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of_node_group(resource)
    groups = groups_of_launch(launch)
    if not groups:
        raise NotApplicable
    if any(_is_of_cluster(value) for value, _ in groups):
        return
    for value, group in groups:
        if group is None:
            raise value.undecidable("this may be the security group of the cluster")
    if _is_let_in(resource.case, groups):
        return
    yield Fault(at=launch.data, got="other security groups only", allowed="ClusterSecurityGroupId among them")


def _is_let_in(case: Case, groups: Groups) -> bool:
    """Whether a security group of the control plane, its own or one that the cluster names, lets the nodes in."""
    named = [
        item for one in case.resources("AWS::EKS::Cluster") for item in values_at(one.properties, _NAMED)
    ]
    rules = [rule for value in named if (group := group_of(value)) for rule in ingress_rules(group)]
    beside = [one for one in case.resources(INGRESS) if _is_of_cluster(one.get("GroupId"))]
    peers = [*(rule.peer for rule in rules), *(one.get("SourceSecurityGroupId") for one in beside)]
    return any(group_of(peer) in [group for _, group in groups] for peer in peers if peer.exists)


def _is_of_cluster(value: Value) -> bool:
    return value.reference is not None and value.reference.attribute == "ClusterSecurityGroupId"


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
        "AWS::EKS::Cluster/ResourcesVpcConfig/SecurityGroupIds",
        "AWS::EC2::SecurityGroupIngress",
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
