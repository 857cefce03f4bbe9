"""A Lustre file system stands in one subnet."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_only
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

ONE_SUBNET = define_rule(
    "GPU-LUS-041",
    "a Lustre file system stands in exactly one subnet",
    source="botocore 1.44.5, fsx service model: CreateFileSystem, SubnetIds",
)


def _check(resource: Resource) -> Iterator[Fault]:
    subnets = lustre_only(resource).get("SubnetIds")
    count = len(subnets.items())
    if count != 1:
        yield Fault(at=subnets, got=f"{count} subnets", allowed="1")


RULE = TemplateRule(
    rule=ONE_SUBNET,
    severity=Severity.ERROR,
    cause="FSx refuses a Lustre file system in several subnets, or in none",
    fix="name one subnet, in the zone of the nodes",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-fsx-filesystem.html",
    on=(FILE_SYSTEM,),
    looks_at=("SubnetIds",),
    check=_check,
    bad="""
Resources:
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 4800
      SubnetIds: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
""",
    good="""
Resources:
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 4800
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
""",
)
