"""Intelligent-Tiering has a read cache, or says that it has none."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.lustre import READ_CACHE
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.storage._sizing import LOOKS_AT, checks_sizing

RULE = TemplateRule(
    rule=READ_CACHE,
    severity=Severity.ERROR,
    cause="FSx refuses the read cache",
    fix="set SizingMode: PROPORTIONAL_TO_THROUGHPUT_CAPACITY or NO_CACHE, or USER_PROVISIONED with a SizeGiB",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-fsx-filesystem-datareadcacheconfiguration.html",
    on=(FILE_SYSTEM,),
    looks_at=LOOKS_AT,
    check=checks_sizing(
        READ_CACHE,
        "LustreConfiguration/DataReadCacheConfiguration",
        allowed="NO_CACHE, PROPORTIONAL_TO_THROUGHPUT_CAPACITY",
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
        ThroughputCapacity: 8000
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
