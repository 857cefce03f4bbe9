"""A SCRATCH_2 file system has no key of the account."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.lustre import KEY, check_encryption_key
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_sizing
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    key = resource.get("KmsKeyId")
    for finding in check_encryption_key(lustre_sizing(resource), given=key.exists):
        yield Fault(at=key, got="KmsKeyId", allowed=finding.allowed)


RULE = TemplateRule(
    rule=KEY,
    severity=Severity.ERROR,
    cause="SCRATCH_2 is encrypted with a key of FSx, and takes no other",
    fix="leave KmsKeyId out, or use PERSISTENT_2",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/encryption-at-rest.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "KmsKeyId",
        "LustreConfiguration/DeploymentType",
    ),
    check=_check,
    bad="""
Resources:
  Corpus:
    Type: AWS::FSx::FileSystem
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 4800
      KmsKeyId: arn:aws:kms:us-east-1:111122223333:key/k-1
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: SCRATCH_2
""",
    good="""
Resources:
  Corpus:
    Type: AWS::FSx::FileSystem
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 4800
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: SCRATCH_2
""",
)
