"""A file system that is linked to S3 is of a class that can be."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.data_repository import CLASS, check_data_repositories
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.data_repositories import associations_of
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_sizing
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    associations = associations_of(resource)
    if not associations:
        raise NotApplicable
    sizing = lustre_sizing(resource)
    for finding in check_data_repositories([associations[0].placeholder(0)], sizing=sizing):
        if finding.id == CLASS.id:
            yield Fault(
                at=resource.get("StorageType"), got=finding.got, allowed=finding.allowed, cause=finding.cause
            )


RULE = TemplateRule(
    rule=CLASS,
    severity=Severity.ERROR,
    cause="FSx refuses the association",
    fix="use SSD storage and Lustre 2.15, or copy the data",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "StorageType",
        "FileSystemTypeVersion",
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
      StorageType: INTELLIGENT_TIERING
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        ThroughputCapacity: 8000
        DataReadCacheConfiguration: {SizingMode: NO_CACHE}
        MetadataConfiguration: {Mode: USER_PROVISIONED, Iops: 6000}
        AutomaticBackupRetentionDays: 0
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
