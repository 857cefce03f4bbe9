"""What the rules about the interfaces that AWS PCS documents share."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Rule
from cdk_gpu_clusters.rules.interfaces import check_pcs_interfaces
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import launch_of_node_group, records_of
from cdk_gpu_clusters.template_rules.lookups.launches import layout_of
from cdk_gpu_clusters.template_rules.rule import Check, Fault, NotApplicable

LOOKS_AT = ("AWS::EC2::LaunchTemplate/LaunchTemplateData/NetworkInterfaces", "InstanceConfigs/*/InstanceType")
URL = "https://docs.aws.amazon.com/pcs/latest/userguide/working-with_networking_multi-nic.html"


def checks_form(rule: Rule) -> Check:
    """The check of a rule of `rules.interfaces` about AWS PCS."""

    def check(resource: Resource) -> Iterator[Fault]:
        launch = launch_of_node_group(resource)
        interfaces = layout_of(launch)
        if not interfaces:
            raise NotApplicable
        for _, record in records_of(resource)[:1]:  # what departs is the same for every type
            for finding in check_pcs_interfaces(record, interfaces):
                if finding.id == rule.id:
                    at = launch.data.get("NetworkInterfaces")
                    yield Fault(at=at, got=finding.got, allowed=finding.allowed, cause=finding.cause)

    return check
