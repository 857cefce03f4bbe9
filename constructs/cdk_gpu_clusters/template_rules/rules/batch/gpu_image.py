"""The image of GPU nodes of Batch carries the driver."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import (
    COMPUTE_ENVIRONMENT,
    launch_of_node_group,
    records_of,
    specification_of,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

GPU_IMAGE = define_rule(
    "GPU-BAT-002",
    "a compute environment with GPUs that chooses an image type chooses one with the NVIDIA driver",
    source='AWS Batch API reference, Ec2Configuration, imageType; AWS Batch user guide, "AMI selection order"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    choices = resource.get("ComputeResources", "Ec2Configuration").items()
    if not choices or any(one.get("ImageIdOverride").exists for one in choices):
        raise NotApplicable
    if resource.get("ComputeResources", "ImageId").exists or _launch_names_image(resource):
        raise NotApplicable
    gpus = [
        value.text()
        for value, record in records_of(resource)
        if record.accelerator is not None and record.accelerator.manufacturer == "NVIDIA"
    ]
    kinds = [one.get("ImageType").text() or "" for one in choices]
    if gpus and not any("NVIDIA" in kind for kind in kinds):
        at = choices[0].get("ImageType")
        yield Fault(
            at=at, got=f"{', '.join(kinds)} with {gpus[0]}", allowed="ECS_AL2023_NVIDIA, EKS_AL2023_NVIDIA"
        )


def _launch_names_image(environment: Resource) -> bool:
    """Whether the launch template, or an override of it, has an image, which counts more than an image type."""
    specification = specification_of(environment)
    if not specification.exists:
        return False
    return bool(specification.get("Overrides").items()) or (
        launch_of_node_group(environment).data.get("ImageId").exists
    )


RULE = TemplateRule(
    rule=GPU_IMAGE,
    severity=Severity.ERROR,
    cause="nodes come up without the driver: Batch sees no GPU, and jobs wait for ever",
    fix="set ImageType to ECS_AL2023_NVIDIA, or EKS_AL2023_NVIDIA; or leave Ec2Configuration out, whose default it is",
    url="https://docs.aws.amazon.com/batch/latest/APIReference/API_Ec2Configuration.html",
    on=(COMPUTE_ENVIRONMENT,),
    looks_at=(
        "ComputeResources/Ec2Configuration/*/ImageType",
        "ComputeResources/InstanceTypes",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/ImageId",
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
        Type: EC2
        MinvCpus: 0
        MaxvCpus: 192
        InstanceTypes: [g6.8xlarge]
        Subnets: [subnet-0123456789abcdef0]
        PlacementGroup: !Ref Close
        Ec2Configuration: [{ImageType: ECS_AL2023}]
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
