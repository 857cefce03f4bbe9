"""Image and instance type have one architecture."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.images import ARCHITECTURE_FITS
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.launch._images import LOOKS_AT, checks_image

RULE = TemplateRule(
    rule=ARCHITECTURE_FITS,
    severity=Severity.ERROR,
    cause="EC2 refuses to start an instance from an image of another architecture",
    fix="choose the image of the type's architecture",
    url="https://docs.aws.amazon.com/dlami/latest/devguide/find-dlami-id.html",
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=checks_image(ARCHITECTURE_FITS),
    bad="""
Parameters:
  Image:
    Type: AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>
    Default: /aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g5g.16xlarge
        ImageId: !Ref Image
""",
    good="""
Parameters:
  Image:
    Type: AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>
    Default: /aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g5g.16xlarge
        ImageId: !Ref Image
""",
)
