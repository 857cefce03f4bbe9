"""Automatic backups are kept for as long as FSx keeps them."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.lustre import RETENTION, check_backups
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_sizing
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    sizing = lustre_sizing(resource)
    days = resource.get("LustreConfiguration", "AutomaticBackupRetentionDays")
    kept = days.integer()
    if kept is None:
        raise NotApplicable
    for finding in check_backups(sizing, kept):
        yield Fault(at=days, got=finding.got, allowed=finding.allowed, cause=finding.cause)


RULE = TemplateRule(
    rule=RETENTION,
    severity=Severity.ERROR,
    cause="FSx refuses to keep backups so long",
    fix="set AutomaticBackupRetentionDays to 0 to 90; to 0 on SCRATCH_2, or use PERSISTENT_2",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-backups-fsx.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "LustreConfiguration/AutomaticBackupRetentionDays",
        "LustreConfiguration/DeploymentType",
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
      StorageCapacity: 4800
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
        AutomaticBackupRetentionDays: 365
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
        AutomaticBackupRetentionDays: 30
""",
)
