"""A Lustre file system with EFA is of the class that serves it."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.lustre import EFA_CLASS
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.storage._sizing import LOOKS_AT, checks_sizing

RULE = TemplateRule(
    rule=EFA_CLASS,
    severity=Severity.ERROR,
    cause="FSx refuses EFA on this class",
    fix="use PERSISTENT_2 with a MetadataConfiguration, or leave EfaEnabled out",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/efa-file-systems.html",
    on=(FILE_SYSTEM,),
    looks_at=LOOKS_AT,
    check=checks_sizing(EFA_CLASS, "LustreConfiguration/EfaEnabled", allowed="PERSISTENT_2"),
    bad="""
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
        EfaEnabled: true
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
