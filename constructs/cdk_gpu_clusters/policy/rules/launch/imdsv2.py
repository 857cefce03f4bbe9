"""Nodes answer metadata requests with a token only (IMDSv2)."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.policy.case import Resource
from cdk_gpu_clusters.policy.lookups.launches import LAUNCHES, accelerated_launch
from cdk_gpu_clusters.policy.rule import Fault, TemplateRule

TOKENS_REQUIRED = define_rule(
    "GPU-LT-010",
    "the metadata service of a GPU node asks for tokens (IMDSv2)",
    source='AWS EC2 user guide, "Configure the instance metadata options"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    options = accelerated_launch(resource).data.get("MetadataOptions")
    tokens = options.get("HttpTokens")
    if options.get("HttpEndpoint").text() != "disabled" and tokens.text() != "required":
        yield Fault(at=tokens, got=tokens.text() or "nothing", allowed="required")


RULE = TemplateRule(
    rule=TOKENS_REQUIRED,
    severity=Severity.WARNING,
    cause="without tokens, any request that a program on the node can be made to send reads the node's credentials",
    fix="set MetadataOptions/HttpTokens to required",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/MetadataOptions/HttpTokens",
        "LaunchTemplateData/MetadataOptions/HttpEndpoint",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        MetadataOptions: {HttpTokens: optional}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        MetadataOptions: {HttpTokens: required}
""",
)
