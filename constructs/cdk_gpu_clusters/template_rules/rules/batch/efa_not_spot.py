"""Batch nodes with EFA are not spot."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import COMPUTE_ENVIRONMENT, launch_of_node_group
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

NOT_SPOT = define_rule(
    "GPU-BAT-001",
    "a compute environment whose nodes have EFA is not SPOT",
    source='AWS Batch user guide, "Compute environment considerations for MNP"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    kind = resource.get("ComputeResources", "Type")
    if not launch_of_node_group(resource).has_efa():
        raise NotApplicable
    if kind.text() == "SPOT":
        yield Fault(at=kind, got="SPOT", allowed="EC2")


RULE = TemplateRule(
    rule=NOT_SPOT,
    severity=Severity.WARNING,
    cause="Batch runs no multi-node job on spot instances, so that no job uses the EFA between nodes",
    fix="set Type to EC2, or leave the EFA interfaces out",
    url="https://docs.aws.amazon.com/batch/latest/userguide/mnp-ce.html",
    on=(COMPUTE_ENVIRONMENT,),
    looks_at=(
        "ComputeResources/Type",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
    ),
    check=_check,
    bad="""
Resources:
  Close:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: cluster}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Environment:
    Type: AWS::Batch::ComputeEnvironment
    Properties:
      Type: MANAGED
      ComputeResources:
        Type: SPOT
        MinvCpus: 0
        MaxvCpus: 192
        InstanceTypes: [g6.8xlarge]
        Subnets: [subnet-0123456789abcdef0]
        PlacementGroup: !Ref Close
        Ec2Configuration: [{ImageType: ECS_AL2023_NVIDIA}]
        LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Close:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: cluster}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Environment:
    Type: AWS::Batch::ComputeEnvironment
    Properties:
      Type: MANAGED
      ComputeResources:
        Type: EC2
        MinvCpus: 0
        MaxvCpus: 192
        InstanceTypes: [g6.8xlarge]
        Subnets: [subnet-0123456789abcdef0]
        PlacementGroup: !Ref Close
        Ec2Configuration: [{ImageType: ECS_AL2023_NVIDIA}]
        LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
