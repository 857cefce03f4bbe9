"""A data repository is a bucket or a prefix, written as an S3 URI."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import ConfigError, Severity
from cdk_gpu_clusters.rules.data_repository import S3_URI, read_s3_uri
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.data_repositories import ASSOCIATION
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    uri = resource.get("DataRepositoryPath")
    text = uri.text()
    if text is None:
        raise NotApplicable
    try:
        read_s3_uri(text)
    except ConfigError as wrong:
        yield from faults_of(S3_URI, wrong.findings, uri)


RULE = TemplateRule(
    rule=S3_URI,
    severity=Severity.ERROR,
    cause="FSx refuses the data repository",
    fix="write s3://bucket or s3://bucket/prefix/",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(ASSOCIATION,),
    looks_at=("DataRepositoryPath",),
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
      DataRepositoryPath: https://corpus.s3.amazonaws.com/tokens/
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
