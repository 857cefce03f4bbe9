"""Intelligent-Tiering has a throughput capacity in steps, and no size."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.lustre import TIERING_THROUGHPUT
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.storage._sizing import LOOKS_AT, checks_sizing

RULE = TemplateRule(
    rule=TIERING_THROUGHPUT,
    severity=Severity.ERROR,
    cause="FSx refuses the throughput capacity",
    fix="set ThroughputCapacity to a multiple of 4000 MB/s, and leave StorageCapacity and PerUnitStorageThroughput out",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-fsx-filesystem-lustreconfiguration.html",
    on=(FILE_SYSTEM,),
    looks_at=LOOKS_AT,
    check=checks_sizing(
        TIERING_THROUGHPUT,
        "LustreConfiguration/ThroughputCapacity",
        allowed="multiples of 4000 MB/s, and no size",
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
      StorageType: INTELLIGENT_TIERING
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        ThroughputCapacity: 6000
        DataReadCacheConfiguration: {SizingMode: PROPORTIONAL_TO_THROUGHPUT_CAPACITY}
        MetadataConfiguration: {Mode: USER_PROVISIONED, Iops: 6000}
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
      StorageType: INTELLIGENT_TIERING
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration:
        DeploymentType: PERSISTENT_2
        ThroughputCapacity: 8000
        DataReadCacheConfiguration: {SizingMode: PROPORTIONAL_TO_THROUGHPUT_CAPACITY}
        MetadataConfiguration: {Mode: USER_PROVISIONED, Iops: 6000}
""",
)
