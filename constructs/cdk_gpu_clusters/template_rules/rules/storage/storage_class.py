"""The storage class of a Lustre file system fits its deployment type."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.lustre import STORAGE_TYPE
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.storage._sizing import LOOKS_AT, checks_sizing

RULE = TemplateRule(
    rule=STORAGE_TYPE,
    severity=Severity.ERROR,
    cause="FSx refuses the storage class",
    fix="use SSD; INTELLIGENT_TIERING only with PERSISTENT_2, and without SSD properties",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-fsx-filesystem-lustreconfiguration.html",
    on=(FILE_SYSTEM,),
    looks_at=LOOKS_AT,
    check=checks_sizing(STORAGE_TYPE, "StorageType", allowed="SSD, or INTELLIGENT_TIERING with PERSISTENT_2"),
    bad="""
Resources:
  Corpus:
    Type: AWS::FSx::FileSystem
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 4800
      StorageType: HDD
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
