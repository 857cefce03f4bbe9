"""A gp3 volume has as many operations per second as its size allows."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.root_volume import ROOT_IOPS
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.launch._volumes import LOOKS_AT, URL, checks_gp3

RULE = TemplateRule(
    rule=ROOT_IOPS,
    severity=Severity.ERROR,
    cause="EBS refuses a gp3 volume with that many IOPS, so that no node starts",
    fix="change Iops, or make the volume larger",
    url=URL,
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=checks_gp3(ROOT_IOPS),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        BlockDeviceMappings:
          - DeviceName: /dev/xvda
            Ebs: {VolumeSize: 10, VolumeType: gp3, Iops: 16000, Encrypted: true}
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
            Ebs: {VolumeSize: 500, VolumeType: gp3, Iops: 16000, Encrypted: true}
""",
)
