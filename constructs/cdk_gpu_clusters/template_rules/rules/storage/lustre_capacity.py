"""A Lustre file system has a size that FSx makes."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.lustre import CAPACITY, check_lustre
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_sizing
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    findings = check_lustre(lustre_sizing(resource))
    yield from faults_of(CAPACITY, findings, resource.get("StorageCapacity"))


RULE = TemplateRule(
    rule=CAPACITY,
    severity=Severity.ERROR,
    cause="FSx refuses the size",
    fix="use 1200 GiB, 2400 GiB or a multiple of 2400 GiB",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/getting-started.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "StorageCapacity",
        "StorageType",
        "LustreConfiguration/DeploymentType",
        "LustreConfiguration/PerUnitStorageThroughput",
        "LustreConfiguration/EfaEnabled",
    ),
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
      StorageCapacity: 5000
      SubnetIds: [subnet-0123456789abcdef0]
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
