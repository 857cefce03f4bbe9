"""An image is named by its id."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.policy.case import Resource
from cdk_gpu_clusters.policy.lookups.launches import LAUNCHES, accelerated_launch
from cdk_gpu_clusters.policy.rule import Fault, NotApplicable, TemplateRule, faults_of
from cdk_gpu_clusters.rules.images import IMAGE_ID_FORM, check_image_id


def _check(resource: Resource) -> Iterator[Fault]:
    image = accelerated_launch(resource).data.get("ImageId")
    if not image.is_known:
        raise NotApplicable
    name = image.text() or ""
    if not name.startswith("resolve:ssm:"):
        yield from faults_of(IMAGE_ID_FORM, check_image_id(name), image)


RULE = TemplateRule(
    rule=IMAGE_ID_FORM,
    severity=Severity.ERROR,
    cause="EC2 starts no instance from a name that is no image id",
    fix="give ami- and its digits, or resolve:ssm: and the name of a parameter",
    url="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RequestLaunchTemplateData.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/ImageId",),
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
