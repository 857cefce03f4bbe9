"""What the rules about MIG layouts in user data share: they are read once, and checked against each type once."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Finding, Rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import launch_of
from cdk_gpu_clusters.template_rules.lookups.mig import Split, findings_of
from cdk_gpu_clusters.template_rules.rule import Check, Fault

LOOKS_AT = (
    "LaunchTemplateData/UserData: MIG_PARTITION, nvidia-smi mig -cgi, mig-devices of mig-parted",
    "LaunchTemplateData/InstanceType",
    "instance types of the resources that use the launch template",
)
URL = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/"


def checks_layouts(rule: Rule) -> Check:
    """The check of a rule of `rules.mig_checks`."""

    def check(resource: Resource) -> Iterator[Fault]:
        for split, finding in resource.once(_findings):
            if finding.id == rule.id:
                got = finding.got or ", ".join(map(str, split.layouts))
                yield Fault(at=split.value, got=got, allowed=finding.allowed, cause=finding.cause)

    return check


def _findings(resource: Resource) -> list[tuple[Split, Finding]]:
    return findings_of(launch_of(resource))
