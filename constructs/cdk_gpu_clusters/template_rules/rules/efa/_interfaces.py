"""What all rules about a list of interfaces share: it is read once, and checked against each type once."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Finding, Rule
from cdk_gpu_clusters.rules.interfaces import check_interfaces
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of, layout_of
from cdk_gpu_clusters.template_rules.rule import Check, Fault, NotApplicable, faults_of

ON = LAUNCHES
LOOKS_AT = (
    "LaunchTemplateData/NetworkInterfaces/*/NetworkCardIndex",
    "LaunchTemplateData/NetworkInterfaces/*/DeviceIndex",
    "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
    "LaunchTemplateData/InstanceType",
    "instance types of the resources that use the launch template",
)
URL = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html"


def checks_interfaces(rule: Rule) -> Check:
    """The check of a rule of `rules.interface_checks`."""

    def check(resource: Resource) -> Iterator[Fault]:
        for at, findings in resource.once(_findings):
            yield from faults_of(rule, findings, at)

    return check


def _findings(resource: Resource) -> list[tuple[Value, list[Finding]]]:
    launch = launch_of(resource)
    interfaces = layout_of(launch)
    if len(interfaces) < 2 and not launch.has_efa():
        raise NotApplicable
    at = launch.data.get("NetworkInterfaces")
    return [(at, check_interfaces(record, interfaces)) for _, record in launch.records()]
