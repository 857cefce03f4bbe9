"""Nodes of today's images mount the Lustre version of a file system."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_only, lustre_version
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

MOUNTABLE = define_rule(
    "GPU-LUS-047",
    "a Lustre file system is of version 2.12 or 2.15, which the images of GPU nodes mount",
    source='FSx for Lustre user guide, "Lustre file system and client kernel compatibility"; AWS::FSx::FileSystem '
    "reference, FileSystemTypeVersion: 2.10 by default; amazonlinux/amazon-linux-2023 723",
)


def _check(resource: Resource) -> Iterator[Fault]:
    if lustre_only(resource).get("BackupId").exists:
        raise NotApplicable  # it has the version of the file system that the backup is of
    named = resource.get("FileSystemTypeVersion")
    if lustre_version(resource) == "2.10":
        yield Fault(at=named, got="2.10" if named.exists else "2.10, by default", allowed="2.15, 2.12")


RULE = TemplateRule(
    rule=MOUNTABLE,
    severity=Severity.WARNING,
    cause="clients of Amazon Linux 2023, Ubuntu 24.04 and RHEL 9 are of Lustre 2.15, and do not mount 2.10",
    fix='set FileSystemTypeVersion to "2.15"',
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/lustre-client-matrix.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "FileSystemTypeVersion",
        "LustreConfiguration/DeploymentType",
        "LustreConfiguration/MetadataConfiguration",
    ),
    check=_check,
    bad="""
Resources:
  Scratch:
    Type: AWS::FSx::FileSystem
    Properties:
      FileSystemType: LUSTRE
      StorageCapacity: 2400
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration: {DeploymentType: SCRATCH_2}
""",
    good="""
Resources:
  Scratch:
    Type: AWS::FSx::FileSystem
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 2400
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration: {DeploymentType: SCRATCH_2}
""",
)
