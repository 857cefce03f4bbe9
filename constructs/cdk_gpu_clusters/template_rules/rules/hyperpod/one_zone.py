"""HyperPod nodes with EFA stand in one zone."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import HYPERPOD, efa_groups
from cdk_gpu_clusters.template_rules.lookups.network import is_same_zone, known_zone_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

ONE_ZONE = define_rule(
    "GPU-HYP-006",
    "an instance group of HyperPod with EFA stands in one Availability Zone",
    source='AWS EC2 user guide, "EFA limitations"; Amazon SageMaker AI developer guide, "Setting up SageMaker HyperPod '
    'clusters across multiple AZs"; which of several subnets of its own a group takes is unverified',
)


def _check(resource: Resource) -> Iterator[Fault]:
    # Of the subnets of the cluster, SageMaker chooses one, in whose zone all groups stand.
    groups = [group for group, _ in efa_groups(resource) if group.get("OverrideVpcConfig").exists]
    if not groups:
        raise NotApplicable
    for group in groups:
        subnets = group.get("OverrideVpcConfig", "Subnets").items()
        for subnet in subnets[1:]:
            zones = known_zone_of(subnets[0]), known_zone_of(subnet)
            if not is_same_zone(*zones):
                got = " and ".join(zone.text() or "" for zone in zones)
                yield Fault(at=subnet, got=got, allowed="one zone")


RULE = TemplateRule(
    rule=ONE_ZONE,
    severity=Severity.WARNING,
    cause="EFA traffic does not leave a zone: nodes that land in two of them cannot train together",
    fix="give the group one subnet, in OverrideVpcConfig",
    url="https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html",
    on=(HYPERPOD,),
    looks_at=(
        "InstanceGroups/*/OverrideVpcConfig/Subnets",
        "AWS::EC2::Subnet/AvailabilityZone",
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
  Near:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/20, AvailabilityZone: us-east-1a}
  Second:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.16.0/20, AvailabilityZone: us-east-1b}
  Cluster:
    Type: AWS::SageMaker::Cluster
    Properties:
      NodeRecovery: Automatic
      VpcConfig:
        SecurityGroupIds: [!GetAtt Fabric.GroupId]
        Subnets: [!Ref Near]
      InstanceGroups:
        - InstanceGroupName: trainers
          InstanceType: ml.p5.48xlarge
          InstanceCount: 4
          ExecutionRole: arn:aws:iam::111122223333:role/hyperpod
          LifeCycleConfig: {SourceS3Uri: s3://sagemaker-lifecycle/base, OnCreate: a.sh}
          OverrideVpcConfig:
            SecurityGroupIds: [!GetAtt Fabric.GroupId]
            Subnets: [!Ref Near, !Ref Second]
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
  Near:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/20, AvailabilityZone: us-east-1a}
  Second:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.16.0/20, AvailabilityZone: us-east-1a}
  Cluster:
    Type: AWS::SageMaker::Cluster
    Properties:
      NodeRecovery: Automatic
      VpcConfig:
        SecurityGroupIds: [!GetAtt Fabric.GroupId]
        Subnets: [!Ref Near]
      InstanceGroups:
        - InstanceGroupName: trainers
          InstanceType: ml.p5.48xlarge
          InstanceCount: 4
          ExecutionRole: arn:aws:iam::111122223333:role/hyperpod
          LifeCycleConfig: {SourceS3Uri: s3://sagemaker-lifecycle/base, OnCreate: a.sh}
          OverrideVpcConfig:
            SecurityGroupIds: [!GetAtt Fabric.GroupId]
            Subnets: [!Ref Near, !Ref Second]
""",
)
