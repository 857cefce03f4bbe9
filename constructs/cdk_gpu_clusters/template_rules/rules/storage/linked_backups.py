"""A file system that is linked to S3 has no automatic backups."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.data_repository import BACKUPS, check_data_repositories
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.data_repositories import associations_of
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    associations = associations_of(resource)
    if not associations:
        raise NotApplicable
    days = resource.get("LustreConfiguration", "AutomaticBackupRetentionDays")
    repositories = [associations[0].placeholder(0)]
    for finding in check_data_repositories(repositories, backup_retention_days=days.integer()):
        if finding.id == BACKUPS.id:
            yield Fault(at=days, got=f"AutomaticBackupRetentionDays {days.text()}", allowed=finding.allowed)


RULE = TemplateRule(
    rule=BACKUPS,
    severity=Severity.ERROR,
    cause="a file system that is linked to S3 cannot be backed up",
    fix="set AutomaticBackupRetentionDays to 0; automatic export keeps a copy in S3",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-backups-fsx.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "LustreConfiguration/AutomaticBackupRetentionDays",
        "AWS::FSx::DataRepositoryAssociation/FileSystemId",
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
        AutomaticBackupRetentionDays: 7
  Tokens:
    Type: AWS::FSx::DataRepositoryAssociation
    Properties:
      FileSystemId: !Ref Corpus
      FileSystemPath: /tokens
      DataRepositoryPath: s3://corpus/tokens/
      S3: {AutoImportPolicy: {Events: [NEW, CHANGED, DELETED]}}
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
        AutomaticBackupRetentionDays: 0
  Tokens:
    Type: AWS::FSx::DataRepositoryAssociation
    Properties:
      FileSystemId: !Ref Corpus
      FileSystemPath: /tokens
      DataRepositoryPath: s3://corpus/tokens/
      S3: {AutoImportPolicy: {Events: [NEW, CHANGED, DELETED]}}
""",
)
