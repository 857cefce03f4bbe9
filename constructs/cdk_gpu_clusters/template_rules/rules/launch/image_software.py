"""The software of the image is as new as the family needs."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.images import SOFTWARE_NEW_ENOUGH
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.launch._images import LOOKS_AT, checks_image

RULE = TemplateRule(
    rule=SOFTWARE_NEW_ENOUGH,
    severity=Severity.WARNING,
    cause="the driver or the EFA software of the image is older than the family needs",
    fix="choose another operating system, or check the image that the parameter gives today",
    url="https://docs.aws.amazon.com/dlami/latest/devguide/find-dlami-id.html",
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=checks_image(SOFTWARE_NEW_ENOUGH),
    bad="""
Parameters:
  Image:
    Type: AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>
    Default: /aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p6e-gb200.36xlarge
        ImageId: !Ref Image
""",
    good="""
Parameters:
  Image:
    Type: AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>
    Default: /aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p6e-gb200.36xlarge
        ImageId: !Ref Image
""",
)
