"""Security groups of HyperPod nodes with EFA allow all traffic among them."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import HYPERPOD, efa_groups
from cdk_gpu_clusters.template_rules.lookups.network import exchange_all, groups_at
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

EFA_TRAFFIC = define_rule(
    "GPU-HYP-005",
    "a security group of HyperPod nodes with EFA allows all traffic with itself, in and out",
    source='Amazon SageMaker AI developer guide, "Prerequisites for using SageMaker HyperPod"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    groups = list(efa_groups(resource))
    if not groups:
        raise NotApplicable
    for group, network in groups:
        value = network.get("SecurityGroupIds")
        if not value.exists:
            continue  # SageMaker makes the network by itself
        members = groups_at(value)
        if not exchange_all(members, members, at=value):
            got = f"no rules for all traffic within the group of {group.get('InstanceGroupName').template_text()}"
            yield Fault(at=value, got=got, allowed="IpProtocol -1, both ways")


RULE = TemplateRule(
    rule=EFA_TRAFFIC,
    severity=Severity.ERROR,
    cause="EFA health checks of the nodes fail before any lifecycle script runs, so that its logs are empty",
    fix="add SecurityGroupIngress and SecurityGroupEgress with IpProtocol -1 and the same group at both ends",
    url="https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html",
    on=(HYPERPOD,),
    looks_at=(
        "VpcConfig/SecurityGroupIds",
        "InstanceGroups/*/OverrideVpcConfig/SecurityGroupIds",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    ),
    check=_check,
    bad="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  FromIngress:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      SourceSecurityGroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
  Cluster:
    Type: AWS::SageMaker::Cluster
    Properties:
      NodeRecovery: Automatic
      VpcConfig:
        SecurityGroupIds: [!GetAtt Fabric.GroupId]
        Subnets: [subnet-0123456789abcdef0]
      InstanceGroups:
        - InstanceGroupName: trainers
          InstanceType: ml.p5.48xlarge
          InstanceCount: 4
          ExecutionRole: arn:aws:iam::111122223333:role/hyperpod
          LifeCycleConfig: {SourceS3Uri: s3://sagemaker-lifecycle/base, OnCreate: a.sh}
""",
    good="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  FromIngress:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      SourceSecurityGroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
  FromEgress:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      DestinationSecurityGroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
  Cluster:
    Type: AWS::SageMaker::Cluster
    Properties:
      NodeRecovery: Automatic
      VpcConfig:
        SecurityGroupIds: [!GetAtt Fabric.GroupId]
        Subnets: [subnet-0123456789abcdef0]
      InstanceGroups:
        - InstanceGroupName: trainers
          InstanceType: ml.p5.48xlarge
          InstanceCount: 4
          ExecutionRole: arn:aws:iam::111122223333:role/hyperpod
          LifeCycleConfig: {SourceS3Uri: s3://sagemaker-lifecycle/base, OnCreate: a.sh}
""",
)
