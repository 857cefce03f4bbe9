"""An image is named by its id."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.images import IMAGE_ID_FORM, check_image_id
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.groups import COMPUTE_ENVIRONMENT, PCS_NODE_GROUP, own_types_of
from cdk_gpu_clusters.template_rules.lookups.launches import (
    LAUNCHES,
    accelerated_launch,
    looks_accelerated,
    values_at,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of

# Where node groups name an image beside their launch template.
_IMAGES = {
    COMPUTE_ENVIRONMENT: ("ComputeResources/ImageId", "ComputeResources/Ec2Configuration/*/ImageIdOverride"),
    PCS_NODE_GROUP: ("AmiId",),
}


def _check(resource: Resource) -> Iterator[Fault]:
    known = [image for image in _images_of(resource) if image.is_known]
    if not known:
        raise NotApplicable
    for image in known:
        name = image.text() or ""
        if not name.startswith("resolve:ssm:"):
            yield from faults_of(IMAGE_ID_FORM, check_image_id(name), image)


def _images_of(resource: Resource) -> list[Value]:
    if resource.type in LAUNCHES:
        return [accelerated_launch(resource).data.get("ImageId")]
    if not any(looks_accelerated(value) for value in own_types_of(resource)):
        raise NotApplicable
    return [value for path in _IMAGES[resource.type] for value in values_at(resource.properties, path)]


RULE = TemplateRule(
    rule=IMAGE_ID_FORM,
    severity=Severity.ERROR,
    cause="EC2 starts no instance from a name that is no image id",
    fix="give ami- and its digits, or resolve:ssm: and the name of a parameter",
    url="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RequestLaunchTemplateData.html",
    on=(*LAUNCHES, *_IMAGES),
    looks_at=(
        "LaunchTemplateData/ImageId",
        "AWS::Batch::ComputeEnvironment/ComputeResources/ImageId",
        "AWS::Batch::ComputeEnvironment/ComputeResources/Ec2Configuration/*/ImageIdOverride",
        "AWS::PCS::ComputeNodeGroup/AmiId",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        ImageId: al2023-nvidia
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        ImageId: ami-0123456789abcdef0
""",
)
