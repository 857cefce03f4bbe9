"""A new Lustre file system is of a class that is not outdated."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.lustre import DEPLOYMENT, LustreSizing, check_lustre
from cdk_gpu_clusters.template_rules.case import Case, Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_only
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    if _is_for_some_regions(resource.case):
        raise NotApplicable
    deployment_type = lustre_only(resource).get("LustreConfiguration", "DeploymentType")
    named = deployment_type.text() or "SCRATCH_1"  # FSx's own default
    for finding in check_lustre(LustreSizing(deployment_type=named)):
        if finding.id == DEPLOYMENT.id:
            yield Fault(at=deployment_type, got=named, allowed=finding.allowed)


def _is_for_some_regions(case: Case) -> bool:
    """Whether the template makes a difference for the Region here: not every Region has PERSISTENT_2."""
    return any(
        ("AWS::Region" in name or "AWS::Partition" in name) and choice.value not in (None, "false")
        for name, choice in case.choices.items()
    )


RULE = TemplateRule(
    rule=DEPLOYMENT,
    severity=Severity.WARNING,
    cause="this class is older and slower, and takes neither EFA nor metadata operations",
    fix="use PERSISTENT_2, or SCRATCH_2 for data that may be lost",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-fsx-lustre.html",
    on=(FILE_SYSTEM,),
    looks_at=("LustreConfiguration/DeploymentType",),
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
        DeploymentType: PERSISTENT_1
        PerUnitStorageThroughput: 200
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
