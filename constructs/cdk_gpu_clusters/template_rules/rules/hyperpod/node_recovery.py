"""HyperPod replaces nodes that fail."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import HYPERPOD
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

RECOVERY = define_rule(
    "GPU-HYP-007",
    "HyperPod replaces nodes that fail by itself",
    source="botocore 1.44.5, sagemaker service model: CreateCluster, NodeRecovery",
)


def _check(resource: Resource) -> Iterator[Fault]:
    recovery = resource.get("NodeRecovery")
    if recovery.text() == "None":
        yield Fault(at=recovery, got="None", allowed="Automatic")


RULE = TemplateRule(
    rule=RECOVERY,
    severity=Severity.WARNING,
    cause="a node whose GPU fails stays, and every job on it fails again",
    fix="set NodeRecovery to Automatic",
    url="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateCluster.html",
    on=(HYPERPOD,),
    looks_at=("NodeRecovery",),
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
      NodeRecovery: None
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
