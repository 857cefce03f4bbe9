"""A PERSISTENT_2 file system is linked to S3 by associations."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_only
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

ASSOCIATED = define_rule(
    "GPU-DRA-021",
    "a PERSISTENT_2 file system is linked to S3 by data repository associations, not by ImportPath or ExportPath",
    source="botocore 1.44.5, fsx service model: CreateFileSystem; kubernetes-sigs/aws-fsx-csi-driver 412",
)
_OLDER = ("ImportPath", "ExportPath", "ImportedFileChunkSize", "AutoImportPolicy")


def _check(resource: Resource) -> Iterator[Fault]:
    configuration = lustre_only(resource).get("LustreConfiguration")
    if configuration.get("DeploymentType").text() != "PERSISTENT_2":
        raise NotApplicable
    for name in _OLDER:
        if configuration.get(name).exists:
            yield Fault(at=configuration.get(name), got=name, allowed="AWS::FSx::DataRepositoryAssociation")


RULE = TemplateRule(
    rule=ASSOCIATED,
    severity=Severity.ERROR,
    cause="FSx refuses this property on PERSISTENT_2",
    fix="add a resource of type AWS::FSx::DataRepositoryAssociation",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "LustreConfiguration/ImportPath",
        "LustreConfiguration/ExportPath",
        "LustreConfiguration/ImportedFileChunkSize",
        "LustreConfiguration/AutoImportPolicy",
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
        ImportPath: s3://corpus/tokens
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
