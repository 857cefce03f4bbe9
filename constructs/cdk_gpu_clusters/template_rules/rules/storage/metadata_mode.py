"""The metadata mode is one of the class."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.lustre import METADATA_MODE
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.storage._sizing import LOOKS_AT, checks_sizing

RULE = TemplateRule(
    rule=METADATA_MODE,
    severity=Severity.ERROR,
    cause="FSx refuses the metadata configuration",
    fix="use AUTOMATIC without Iops, or USER_PROVISIONED with them; EFA needs one of the two, SCRATCH_2 has none",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/managing-metadata-performance.html",
    on=(FILE_SYSTEM,),
    looks_at=LOOKS_AT,
    check=checks_sizing(
        METADATA_MODE,
        "LustreConfiguration/MetadataConfiguration",
        allowed="Mode AUTOMATIC without Iops, or USER_PROVISIONED with",
    ),
    bad="""
Resources:
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      FileSystemTypeVersion: "2.15"
      StorageCapacity: 19200
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        EfaEnabled: true
        PerUnitStorageThroughput: 250
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
      StorageCapacity: 19200
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        EfaEnabled: true
        PerUnitStorageThroughput: 250
        MetadataConfiguration: {Mode: AUTOMATIC}
""",
)
