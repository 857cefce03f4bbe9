"""An instance type of a GPU family is one that EC2 has."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.catalogue import instance_type, instance_type_names
from cdk_gpu_clusters.catalogue.lookup import UNKNOWN_TYPE
from cdk_gpu_clusters.errors import ConfigError, Severity
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import (
    LAUNCHES,
    accelerated_launch,
    is_family,
    looks_accelerated,
)
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    families = {name.partition(".")[0] for name in instance_type_names()}
    for value in accelerated_launch(resource).instance_types():
        name = value.text() or ""
        if is_family(value) or not looks_accelerated(value):
            continue
        if name.partition(".")[0] not in families:
            raise value.undecidable(f"the catalogue does not have the family of {name!r}")
        try:
            instance_type(name)
        except ConfigError as error:
            yield from faults_of(UNKNOWN_TYPE, error.findings, value)


RULE = TemplateRule(
    rule=UNKNOWN_TYPE,
    severity=Severity.ERROR,
    cause="EC2 has no such size of the family",
    fix="correct the name; for a type newer than this release, update the library",
    url="https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceType",
        "instance types of the resources that use the launch template",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.24xlarge
        MetadataOptions: {HttpTokens: required}
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
