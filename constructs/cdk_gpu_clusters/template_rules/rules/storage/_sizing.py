"""What the rules about the class, size and speed of Lustre file systems share."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Rule
from cdk_gpu_clusters.rules.lustre import check_lustre
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import lustre_sizing
from cdk_gpu_clusters.template_rules.rule import Check, Fault

LOOKS_AT = (
    "StorageCapacity",
    "StorageType",
    "FileSystemTypeVersion",
    "LustreConfiguration/DeploymentType",
    "LustreConfiguration/PerUnitStorageThroughput",
    "LustreConfiguration/ThroughputCapacity",
    "LustreConfiguration/DataReadCacheConfiguration",
    "LustreConfiguration/MetadataConfiguration",
    "LustreConfiguration/EfaEnabled",
)


def checks_sizing(rule: Rule, at: str, *, allowed: str = "") -> Check:
    """The check of a rule of `rules.lustre`.

    Args:
        rule: The rule.
        at: Property that a fault is placed at.
        allowed: What is allowed in the words of CloudFormation, where the finding says it in those of our constructs.
    """

    def check(resource: Resource) -> Iterator[Fault]:
        sizing = lustre_sizing(resource)
        for finding in check_lustre(sizing):
            if finding.id == rule.id:
                value = resource.get(*at.split("/"))
                yield Fault(
                    at=value, got=finding.got, allowed=allowed or finding.allowed, cause=finding.cause
                )

    return check
