"""A Lustre file system has no more data repository associations than FSx makes."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.data_repository import COUNT, check_data_repositories
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.data_repositories import associations_of
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    repositories = [one.placeholder(index) for index, one in enumerate(associations_of(resource))]
    yield from faults_of(COUNT, check_data_repositories(repositories), resource)


RULE = TemplateRule(
    rule=COUNT,
    severity=Severity.ERROR,
    cause="FSx refuses one association too many",
    fix="link a prefix that holds several of them, or use a second file system",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=("AWS::FSx::DataRepositoryAssociation/FileSystemId",),
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
      S3: {AutoImportPolicy: {Events: [NEW, CHANGED, DELETED]}}
  Link1:
    Type: AWS::FSx::DataRepositoryAssociation
    Properties: {FileSystemId: !Ref Corpus, FileSystemPath: /link1, DataRepositoryPath: "s3://corpus/link1/"}
  Link2:
    Type: AWS::FSx::DataRepositoryAssociation
    Properties: {FileSystemId: !Ref Corpus, FileSystemPath: /link2, DataRepositoryPath: "s3://corpus/link2/"}
  Link3:
    Type: AWS::FSx::DataRepositoryAssociation
    Properties: {FileSystemId: !Ref Corpus, FileSystemPath: /link3, DataRepositoryPath: "s3://corpus/link3/"}
  Link4:
    Type: AWS::FSx::DataRepositoryAssociation
    Properties: {FileSystemId: !Ref Corpus, FileSystemPath: /link4, DataRepositoryPath: "s3://corpus/link4/"}
  Link5:
    Type: AWS::FSx::DataRepositoryAssociation
    Properties: {FileSystemId: !Ref Corpus, FileSystemPath: /link5, DataRepositoryPath: "s3://corpus/link5/"}
  Link6:
    Type: AWS::FSx::DataRepositoryAssociation
    Properties: {FileSystemId: !Ref Corpus, FileSystemPath: /link6, DataRepositoryPath: "s3://corpus/link6/"}
  Link7:
    Type: AWS::FSx::DataRepositoryAssociation
    Properties: {FileSystemId: !Ref Corpus, FileSystemPath: /link7, DataRepositoryPath: "s3://corpus/link7/"}
  Link8:
    Type: AWS::FSx::DataRepositoryAssociation
    Properties: {FileSystemId: !Ref Corpus, FileSystemPath: /link8, DataRepositoryPath: "s3://corpus/link8/"}
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
