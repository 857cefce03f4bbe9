"""Metadata answers travel no further than to a container on the node."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, accelerated_launch
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

HOP_LIMIT = define_rule(
    "GPU-LT-011",
    "answers of the metadata service travel two hops at most",
    source='AWS EC2 user guide, "Configure the instance metadata options": 1 by default, 2 for containers',
)
_MOST = 2


def _check(resource: Resource) -> Iterator[Fault]:
    limit = accelerated_launch(resource).data.get("MetadataOptions", "HttpPutResponseHopLimit")
    hops = limit.integer()
    if hops is not None and hops > _MOST:
        yield Fault(at=limit, got=str(hops), allowed=f"1, or {_MOST} for containers")


RULE = TemplateRule(
    rule=HOP_LIMIT,
    severity=Severity.INFO,
    cause="credentials of the node can be read from behind it: by containers of containers, and through proxies",
    fix="set HttpPutResponseHopLimit to 1, or to 2 for containers that need the node's credentials",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/MetadataOptions/HttpPutResponseHopLimit",),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        MetadataOptions: {HttpTokens: required, HttpPutResponseHopLimit: 64}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        MetadataOptions: {HttpTokens: required, HttpPutResponseHopLimit: 2}
""",
)
