"""A gp3 volume has a size that EBS makes."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.root_volume import ROOT_SIZE
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.launch._volumes import LOOKS_AT, URL, checks_gp3

RULE = TemplateRule(
    rule=ROOT_SIZE,
    severity=Severity.ERROR,
    cause="EBS refuses a gp3 volume of that size, so that no node starts",
    fix="give 1 to 65,536 GiB",
    url=URL,
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=checks_gp3(ROOT_SIZE),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        BlockDeviceMappings:
          - DeviceName: /dev/xvda
            Ebs: {VolumeSize: 70000, VolumeType: gp3, Encrypted: true}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        BlockDeviceMappings:
          - DeviceName: /dev/xvda
            Ebs: {VolumeSize: 500, VolumeType: gp3, Encrypted: true}
""",
)
