"""A HyperPod cluster on EKS says its network."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import HYPERPOD
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

EKS_NETWORK = define_rule(
    "GPU-HYP-009",
    "a HyperPod cluster on EKS has a VpcConfig, and one orchestrator",
    source='Amazon SageMaker AI developer guide, "Prerequisites for using SageMaker HyperPod", EKS',
)


def _check(resource: Resource) -> Iterator[Fault]:
    orchestrator = resource.get("Orchestrator")
    named = orchestrator.keys()
    if len(named) > 1:
        yield Fault(
            at=orchestrator,
            got=" and ".join(named),
            allowed="Eks or Slurm",
            cause="a cluster has one orchestrator",
        )
    if "Eks" in named and not resource.get("VpcConfig").exists:
        yield Fault(at=resource, got="no VpcConfig", allowed="that of the EKS cluster")


RULE = TemplateRule(
    rule=EKS_NETWORK,
    severity=Severity.ERROR,
    cause="SageMaker refuses a cluster on EKS without a network",
    fix="add VpcConfig with the subnets and groups of the EKS cluster",
    url="https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html",
    on=(HYPERPOD,),
    looks_at=(
        "Orchestrator",
        "VpcConfig",
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
  FromEgress:
    Type: AWS::EC2::SecurityGroupEgress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      DestinationSecurityGroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
  Cluster:
    Type: AWS::SageMaker::Cluster
    Properties:
      Orchestrator: {Eks: {ClusterArn: "arn:aws:eks:us-east-1:111122223333:cluster/training"}}
      NodeRecovery: Automatic
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
      Orchestrator: {Eks: {ClusterArn: "arn:aws:eks:us-east-1:111122223333:cluster/training"}}
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
