"""Volumes of GPU nodes are encrypted."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, accelerated_launch
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule
from cdk_gpu_clusters.template_rules.rules.launch._volumes import volumes_of

ENCRYPTED = define_rule(
    "GPU-LT-012",
    "volumes of a GPU node are encrypted",
    source='Amazon EBS user guide, "Amazon EBS encryption"; AWS Foundational Security Best Practices, EC2.3',
)


def _check(resource: Resource) -> Iterator[Fault]:
    volumes = volumes_of(accelerated_launch(resource))
    if not volumes:
        raise NotApplicable
    for volume in volumes:
        if not (volume.get("Encrypted").flag() or volume.get("SnapshotId").exists):
            yield Fault(at=volume, got="not encrypted", allowed="Encrypted: true")


RULE = TemplateRule(
    rule=ENCRYPTED,
    severity=Severity.WARNING,
    cause="what nodes write lies on disk in clear text, unless the account encrypts volumes by default",
    fix="set Ebs/Encrypted to true",
    url="https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/BlockDeviceMappings/*/Ebs/Encrypted",),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        BlockDeviceMappings:
          - DeviceName: /dev/xvda
            Ebs: {VolumeSize: 200, VolumeType: gp3}
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
            Ebs: {VolumeSize: 200, VolumeType: gp3, Encrypted: true}
""",
)
