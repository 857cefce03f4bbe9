"""Volumes of GPU nodes are gp3, not gp2."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, accelerated_launch
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule
from cdk_gpu_clusters.template_rules.rules.launch._volumes import volumes_of

VOLUME_TYPE = define_rule(
    "GPU-COST-004",
    "volumes of a GPU node are gp3, not gp2",
    source='Amazon EBS user guide, "General Purpose SSD volumes": gp3 costs up to 20 percent less for each GB',
)


def _check(resource: Resource) -> Iterator[Fault]:
    volumes = volumes_of(accelerated_launch(resource))
    if not volumes:
        raise NotApplicable
    for volume in volumes:
        if volume.get("VolumeType").text() == "gp2":
            yield Fault(at=volume.get("VolumeType"), got="gp2", allowed="gp3")


RULE = TemplateRule(
    rule=VOLUME_TYPE,
    severity=Severity.INFO,
    cause="gp2 costs more for each GB, and its speed grows only with its size",
    fix="set VolumeType to gp3",
    url="https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/BlockDeviceMappings/*/Ebs/VolumeType",),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        BlockDeviceMappings:
          - DeviceName: /dev/xvda
            Ebs: {VolumeSize: 200, VolumeType: gp2, Encrypted: true}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        BlockDeviceMappings:
          - DeviceName: /dev/xvda
            Ebs: {VolumeSize: 200, VolumeType: gp3, Encrypted: true}
""",
)
