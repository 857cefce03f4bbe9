"""Lifecycle scripts of HyperPod lie where its managed policy reads."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import HYPERPOD, instance_groups
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

BUCKET = define_rule(
    "GPU-HYP-004",
    "lifecycle scripts of HyperPod lie in a bucket whose name starts with sagemaker-",
    source="Amazon SageMaker API reference, ClusterLifeCycleConfig, SourceS3Uri",
)


def _check(resource: Resource) -> Iterator[Fault]:
    for group in instance_groups(resource):
        uri = group.get("LifeCycleConfig", "SourceS3Uri")
        text = uri.template_text()
        if not uri.exists or (text is None and uri.text() is None):
            continue
        bucket = (text or "").partition("://")[2].partition("/")[0]
        if bucket.startswith("${"):
            raise uri.undecidable("the name of the bucket is known at deployment only")
        if not bucket.startswith("sagemaker-"):
            yield Fault(at=uri, got=bucket, allowed="sagemaker-…")


RULE = TemplateRule(
    rule=BUCKET,
    severity=Severity.WARNING,
    cause="the managed policy AmazonSageMakerClusterInstanceRolePolicy reads no other bucket, and nodes fail to start",
    fix="rename the bucket, or give the execution role its own permission and acknowledge this",
    url="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterLifeCycleConfig.html",
    on=(HYPERPOD,),
    looks_at=("InstanceGroups/*/LifeCycleConfig/SourceS3Uri",),
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
      NodeRecovery: Automatic
      VpcConfig:
        SecurityGroupIds: [!GetAtt Fabric.GroupId]
        Subnets: [subnet-0123456789abcdef0]
      InstanceGroups:
        - InstanceGroupName: trainers
          InstanceType: ml.p5.48xlarge
          InstanceCount: 4
          ExecutionRole: arn:aws:iam::111122223333:role/hyperpod
          LifeCycleConfig: {SourceS3Uri: s3://lifecycle/base, OnCreate: a.sh}
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
