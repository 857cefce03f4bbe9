"""Nodes answer metadata requests with a token only (IMDSv2)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import COMPUTE_ENVIRONMENT, EKS_NODE_GROUP
from cdk_gpu_clusters.template_rules.lookups.launches import (
    LAUNCHES,
    Launch,
    accelerated_launch,
    image_parameter_of,
    values_at,
)
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

TOKENS_REQUIRED = define_rule(
    "GPU-LT-010",
    "the metadata service of a GPU node asks for tokens (IMDSv2)",
    source='AWS EC2 user guide, "Configure the instance metadata options"; Amazon Linux 2023 user guide, "IMDSv2"',
)


# Where those who launch name the system of an image that they choose.
_SYSTEMS = {
    COMPUTE_ENVIRONMENT: "ComputeResources/Ec2Configuration/*/ImageType",
    EKS_NODE_GROUP: "AmiType",
}
_AL2023 = re.compile(r"al2023|amazon-linux-2023", re.IGNORECASE)


def _check(resource: Resource) -> Iterator[Fault]:
    launch = accelerated_launch(resource)
    options = launch.data.get("MetadataOptions")
    tokens = options.get("HttpTokens")
    if options.get("HttpEndpoint").text() == "disabled" or tokens.text() == "required":
        return
    if tokens.exists or not _is_asked_for_by_image(launch):
        yield Fault(at=tokens, got=tokens.text() or "nothing", allowed="required")


def _is_asked_for_by_image(launch: Launch) -> bool:
    """Whether the image is one of Amazon Linux 2023, which asks for tokens where nothing else is said."""
    parameter = image_parameter_of(launch) if launch.data.get("ImageId").exists else None
    systems = [
        value.text()
        for use in launch.uses()
        if use.resource.type in _SYSTEMS
        for value in values_at(use.resource.properties, _SYSTEMS[use.resource.type])
    ]
    return any(_AL2023.search(name) for name in (parameter, *systems) if name)


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
        "LaunchTemplateData/ImageId",
        "AWS::Batch::ComputeEnvironment/ComputeResources/Ec2Configuration/*/ImageType",
        "AWS::EKS::Nodegroup/AmiType",
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
