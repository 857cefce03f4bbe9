"""HyperPod groups ask for EFA where the type has it."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import HYPERPOD, hyperpod_record_of, instance_groups
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

EFA_OF_TYPE = define_rule(
    "GPU-HYP-008",
    "an instance group of HyperPod asks for EFA interfaces only where its type has them",
    source="botocore 1.44.5, sagemaker service model: ClusterNetworkInterface; EC2 DescribeInstanceTypes, EfaSupported",
)


def _check(resource: Resource) -> Iterator[Fault]:
    for group in instance_groups(resource):
        interface = group.get("NetworkInterface", "InterfaceType")
        record = hyperpod_record_of(group.get("InstanceType"))
        if interface.exists and record is not None and record.network.efa is None:
            yield Fault(
                at=interface, got=f"{interface.text()} on ml.{record.name}", allowed="a type with EFA"
            )


RULE = TemplateRule(
    rule=EFA_OF_TYPE,
    severity=Severity.ERROR,
    cause="SageMaker cannot make the interfaces",
    fix="leave NetworkInterface out, or choose a type with EFA",
    url="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html",
    on=(HYPERPOD,),
    looks_at=(
        "InstanceGroups/*/NetworkInterface/InterfaceType",
        "InstanceGroups/*/InstanceType",
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
      NodeRecovery: Automatic
      VpcConfig:
        SecurityGroupIds: [!GetAtt Fabric.GroupId]
        Subnets: [subnet-0123456789abcdef0]
      InstanceGroups:
        - InstanceGroupName: trainers
          InstanceType: ml.g6.xlarge
          NetworkInterface: {InterfaceType: efa}
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
          NetworkInterface: {InterfaceType: efa}
          InstanceCount: 4
          ExecutionRole: arn:aws:iam::111122223333:role/hyperpod
          LifeCycleConfig: {SourceS3Uri: s3://sagemaker-lifecycle/base, OnCreate: a.sh}
""",
)
