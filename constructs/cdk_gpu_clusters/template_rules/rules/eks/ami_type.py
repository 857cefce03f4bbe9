"""The AMI type of a node group carries the drivers of its accelerators."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import (
    EKS_NODE_GROUP,
    launch_of_node_group,
    records_of,
    specification_of,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

AMI_TYPE = define_rule(
    "GPU-EKS-016",
    "the AMI type of a node group is for its processors, and carries the drivers of its accelerators",
    source="botocore 1.44.5, eks service model: AMITypes",
)
# What the names of AMI types end with; AL2_x86_64_GPU carried both drivers.
_DRIVERS = {"NVIDIA": ("NVIDIA", "NVIDIA_FIPS", "_GPU"), "AWS": ("NEURON", "_GPU")}


def _check(resource: Resource) -> Iterator[Fault]:
    ami_type = resource.get("AmiType")
    name = ami_type.text()
    if name == "CUSTOM" or (specification_of(resource).exists and _has_image(resource)):
        raise NotApplicable
    for value, record in records_of(resource):
        if record.accelerator is None:
            continue
        if name is None:
            raise ami_type.undecidable("EKS chooses the image by itself")
        wanted = _DRIVERS[record.accelerator.manufacturer]
        processor = "ARM_64" if record.architecture == "arm64" else "x86_64"
        if not name.endswith(wanted) or processor not in name:
            allowed = f"AL2023_{processor}_{wanted[0]}"
            yield Fault(at=ami_type, got=f"{name} with {value.text()}", allowed=allowed)


def _has_image(group: Resource) -> bool:
    return launch_of_node_group(group).data.get("ImageId").exists


RULE = TemplateRule(
    rule=AMI_TYPE,
    severity=Severity.ERROR,
    cause="nodes come up without the driver, and Kubernetes sees no accelerator",
    fix="use an AMI type with NVIDIA or NEURON in its name, for the processors of the type",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html",
    on=(EKS_NODE_GROUP,),
    looks_at=(
        "AmiType",
        "InstanceTypes",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceType",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        MetadataOptions: {HttpTokens: required}
  Group:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: training
      NodeRole: arn:aws:iam::111122223333:role/nodes
      Subnets: [subnet-0123456789abcdef0]
      AmiType: AL2023_x86_64_STANDARD
      LaunchTemplate: {Id: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        MetadataOptions: {HttpTokens: required}
  Group:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: training
      NodeRole: arn:aws:iam::111122223333:role/nodes
      Subnets: [subnet-0123456789abcdef0]
      AmiType: AL2023_x86_64_NVIDIA
      LaunchTemplate: {Id: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
