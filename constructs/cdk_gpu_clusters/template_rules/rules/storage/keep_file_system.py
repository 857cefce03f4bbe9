"""A persistent file system outlives its stack, and a change that replaces it."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_only
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

KEPT = define_rule(
    "GPU-LUS-040",
    "a persistent Lustre file system is retained when its stack is deleted, and when it is replaced",
    source='CloudFormation user guide, "DeletionPolicy attribute" and "UpdateReplacePolicy attribute"',
)
_KEEPING = ("Retain", "RetainExceptOnCreate")


def _check(resource: Resource) -> Iterator[Fault]:
    deployment_type = lustre_only(resource).get("LustreConfiguration", "DeploymentType").text()
    if not (deployment_type or "").startswith("PERSISTENT"):
        raise NotApplicable
    for name in ("DeletionPolicy", "UpdateReplacePolicy"):
        policy = resource.attribute(name).text()
        if policy not in _KEEPING:
            yield Fault(
                at=resource.attribute(name), got=f"{name} {policy or 'Delete, by default'}", allowed="Retain"
            )


RULE = TemplateRule(
    rule=KEPT,
    severity=Severity.WARNING,
    cause="the data is lost with the stack, or with a change that replaces the file system, such as another subnet",
    fix="set DeletionPolicy and UpdateReplacePolicy to Retain",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html",
    on=(FILE_SYSTEM,),
    looks_at=("DeletionPolicy", "UpdateReplacePolicy", "LustreConfiguration/DeploymentType"),
    check=_check,
    bad="""
Resources:
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      StorageCapacity: 4800
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration: {DeploymentType: PERSISTENT_2, PerUnitStorageThroughput: 250}
""",
    good="""
Resources:
  Corpus:
    Type: AWS::FSx::FileSystem
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      FileSystemType: LUSTRE
      StorageCapacity: 4800
      SubnetIds: [subnet-0123456789abcdef0]
      LustreConfiguration: {DeploymentType: PERSISTENT_2, PerUnitStorageThroughput: 250}
""",
)
