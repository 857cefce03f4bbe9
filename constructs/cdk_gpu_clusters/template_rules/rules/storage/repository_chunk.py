"""Imported files have chunks of a size that FSx makes."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.data_repository import CHUNK, check_chunk_size
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.data_repositories import ASSOCIATION
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    chunk = resource.get("ImportedFileChunkSize")
    mib = chunk.integer()
    if mib is not None:
        yield from faults_of(CHUNK, check_chunk_size(mib), chunk)


RULE = TemplateRule(
    rule=CHUNK,
    severity=Severity.ERROR,
    cause="FSx refuses the chunk size",
    fix="leave ImportedFileChunkSize out for 1024 MiB",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-fsx-datarepositoryassociation.html",
    on=(ASSOCIATION,),
    looks_at=("ImportedFileChunkSize",),
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
        AutomaticBackupRetentionDays: 0
  Tokens:
    Type: AWS::FSx::DataRepositoryAssociation
    Properties:
      FileSystemId: !Ref Corpus
      FileSystemPath: /tokens
      DataRepositoryPath: s3://corpus/tokens/
      ImportedFileChunkSize: 1000000
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
      ImportedFileChunkSize: 1024
      S3: {AutoImportPolicy: {Events: [NEW, CHANGED, DELETED]}}
""",
)
