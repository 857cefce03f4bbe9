"""A gp3 volume has no more throughput than its operations allow."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.root_volume import ROOT_THROUGHPUT
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.launch._volumes import LOOKS_AT, URL, checks_gp3

RULE = TemplateRule(
    rule=ROOT_THROUGHPUT,
    severity=Severity.ERROR,
    cause="EBS refuses a gp3 volume with that throughput, so that no node starts",
    fix="change Throughput, or raise Iops to four times the throughput",
    url=URL,
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=checks_gp3(ROOT_THROUGHPUT),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        BlockDeviceMappings:
          - DeviceName: /dev/xvda
            Ebs: {VolumeSize: 500, VolumeType: gp3, Throughput: 1000, Encrypted: true}
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
            Ebs: {VolumeSize: 500, VolumeType: gp3, Iops: 4000, Throughput: 1000, Encrypted: true}
""",
)
