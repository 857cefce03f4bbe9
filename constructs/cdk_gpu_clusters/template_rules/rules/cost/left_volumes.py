"""Volumes of nodes are deleted with the nodes."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, accelerated_launch
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule
from cdk_gpu_clusters.template_rules.rules.launch._volumes import volumes_of

LEFT_VOLUMES = define_rule(
    "GPU-COST-002",
    "volumes of a GPU node are deleted with the node",
    source='AWS EC2 user guide, "Preserve data when an instance is terminated"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    volumes = volumes_of(accelerated_launch(resource))
    if not volumes:
        raise NotApplicable
    for volume in volumes:
        kept = volume.get("DeleteOnTermination")
        if kept.flag() is False:
            yield Fault(at=kept, got="false", allowed="true")


RULE = TemplateRule(
    rule=LEFT_VOLUMES,
    severity=Severity.INFO,
    cause="each node that a group replaces leaves its volumes behind, which bill until somebody deletes them",
    fix="set DeleteOnTermination to true, and keep data on shared storage",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/preserving-volumes-on-termination.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/BlockDeviceMappings/*/Ebs/DeleteOnTermination",),
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
            Ebs: {VolumeSize: 200, VolumeType: gp3, Encrypted: true, DeleteOnTermination: false}
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
            Ebs: {VolumeSize: 200, VolumeType: gp3, Encrypted: true, DeleteOnTermination: true}
""",
)
