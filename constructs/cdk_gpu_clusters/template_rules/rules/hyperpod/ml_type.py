"""Instance types of HyperPod carry its prefix, and exist."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.catalogue.lookup import instance_type_names
from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import HYPERPOD, hyperpod_record_of, instance_groups
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

ML_TYPE = define_rule(
    "GPU-HYP-001",
    "an instance type of HyperPod has the prefix ml. and the name of one of EC2",
    source="botocore 1.44.5, sagemaker service model: ClusterInstanceType",
)
_FAMILIES = {name.partition(".")[0] for name in instance_type_names()}


def _check(resource: Resource) -> Iterator[Fault]:
    for group in instance_groups(resource):
        value = group.get("InstanceType")
        name = value.text()
        if name is None:
            continue
        if not name.startswith("ml."):
            yield Fault(at=value, got=name, allowed=f"ml.{name}")
        elif name.split(".")[1] in _FAMILIES and hyperpod_record_of(value) is None:
            sizes = [f"ml.{one}" for one in instance_type_names() if one.startswith(f"{name.split('.')[1]}.")]
            yield Fault(at=value, got=name, allowed=", ".join(sizes), cause="there is no such size")


RULE = TemplateRule(
    rule=ML_TYPE,
    severity=Severity.ERROR,
    cause="SageMaker refuses a type without its prefix",
    fix="write ml. before the EC2 name",
    url="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html",
    on=(HYPERPOD,),
    looks_at=("InstanceGroups/*/InstanceType",),
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
          InstanceType: p5.48xlarge
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
