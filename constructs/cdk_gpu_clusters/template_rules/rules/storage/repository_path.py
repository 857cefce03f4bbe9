"""The directory of a data repository association is one that FSx takes."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.data_repository import PATH_FORM, check_path
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.data_repositories import ASSOCIATION
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    path = resource.get("FileSystemPath")
    text = path.text()
    if text is None:
        raise NotApplicable
    yield from faults_of(PATH_FORM, check_path(text), path)


RULE = TemplateRule(
    rule=PATH_FORM,
    severity=Severity.ERROR,
    cause="FSx refuses the path",
    fix="write an absolute path of a directory, such as /tokens",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(ASSOCIATION,),
    looks_at=("FileSystemPath",),
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
      FileSystemPath: tokens
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
