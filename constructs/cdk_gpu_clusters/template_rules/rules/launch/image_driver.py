"""The image has the drivers of the accelerator."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.images import DRIVER_FITS
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.launch._images import LOOKS_AT, checks_image

RULE = TemplateRule(
    rule=DRIVER_FITS,
    severity=Severity.ERROR,
    cause="the nodes start, but their accelerators cannot be used",
    fix="choose an image with the drivers of the accelerator",
    url="https://docs.aws.amazon.com/dlami/latest/devguide/find-dlami-id.html",
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=checks_image(DRIVER_FITS),
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
        InstanceType: trn1.32xlarge
        ImageId: !Ref Image
""",
    good="""
Parameters:
  Image:
    Type: AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>
    Default: /aws/service/neuron/dlami/base/amazon-linux-2023/latest/image_id
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: trn1.32xlarge
        ImageId: !Ref Image
""",
)
