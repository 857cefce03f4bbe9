"""The documentation of the image lists the instance family."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.images import FAMILY_LISTED
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.launch._images import LOOKS_AT, checks_image

RULE = TemplateRule(
    rule=FAMILY_LISTED,
    severity=Severity.ERROR,
    cause="the driver of the image may not know the GPU",
    fix="choose an image whose release note lists the family",
    url="https://docs.aws.amazon.com/dlami/latest/devguide/find-dlami-id.html",
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=checks_image(FAMILY_LISTED),
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
        InstanceType: g7.4xlarge
        MetadataOptions: {HttpTokens: required}
        ImageId: !Ref Image
""",
    good="""
Parameters:
  Image:
    Type: AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>
    Default: /aws/service/deeplearning/ami/x86_64/base-with-single-cuda-ubuntu-24.04/latest/ami-id
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g7.4xlarge
        MetadataOptions: {HttpTokens: required}
        ImageId: !Ref Image
""",
)
