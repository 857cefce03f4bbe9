"""A HyperPod group has one kind of lifecycle script."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import HYPERPOD, instance_groups
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

SCRIPT = define_rule(
    "GPU-HYP-003",
    "a lifecycle configuration of HyperPod has OnCreate or OnInitComplete, and not both",
    source="botocore 1.44.5, sagemaker service model: ClusterLifeCycleConfig",
)


def _check(resource: Resource) -> Iterator[Fault]:
    for group in instance_groups(resource):
        configuration = group.get("LifeCycleConfig")
        if all(configuration.get(name).exists for name in ("OnCreate", "OnInitComplete")):
            yield Fault(at=configuration, got="OnCreate and OnInitComplete", allowed="one of the two")


RULE = TemplateRule(
    rule=SCRIPT,
    severity=Severity.ERROR,
    cause="SageMaker refuses the group: OnCreate replaces its own set-up, OnInitComplete follows it",
    fix="keep one of the two",
    url="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterLifeCycleConfig.html",
    on=(HYPERPOD,),
    looks_at=("InstanceGroups/*/LifeCycleConfig",),
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
          LifeCycleConfig: {SourceS3Uri: s3://sagemaker-lifecycle/base, OnCreate: a.sh, OnInitComplete: b.sh}
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
