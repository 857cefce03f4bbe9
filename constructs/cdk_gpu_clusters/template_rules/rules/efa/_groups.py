"""What the rules about the groups of EFA interfaces share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.choices import Undecidable
from cdk_gpu_clusters.template_rules.lookups.launches import Interface, efa_launch
from cdk_gpu_clusters.template_rules.lookups.network import GroupRule, allows_itself, group_of
from cdk_gpu_clusters.template_rules.rule import Check, Fault

URL = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html"
LOOKS_AT = ("LaunchTemplateData/NetworkInterfaces/*/Groups",)


def checks_groups(rules_of: Callable[[Resource], list[GroupRule]], got: str) -> Check:
    """A check that each EFA interface has a group that allows all traffic with itself.

    Args:
        rules_of: The rules of a group in one direction.
        got: What is missing, in words.
    """

    def check(resource: Resource) -> Iterator[Fault]:
        told: set[tuple[Hashable, ...]] = set()
        for interface in efa_launch(resource).interfaces():
            groups = tuple(value.identity() for value in interface.groups) if interface.is_efa else ()
            if groups and groups not in told:
                told.add(groups)  # every interface of a node has the same groups: once is enough
                if not _has_such_group(interface, rules_of):
                    yield Fault(
                        at=interface.value.get("Groups"),
                        got=got,
                        allowed="IpProtocol -1, with the group itself",
                    )

    return check


def _has_such_group(interface: Interface, rules_of: Callable[[Resource], list[GroupRule]]) -> bool:
    """Whether one of the groups is such a one.

    Raises:
        Undecidable: If none surely is, and one might be: a group of another template, for example.
    """
    unclear: Undecidable | None = None
    for value in interface.groups:
        try:
            group = group_of(value)
            if group is None:
                unclear = value.undecidable(
                    "the rules of this security group stand in no part of the template"
                )
            elif allows_itself(group, rules_of(group)):
                return True
        except Undecidable as found:
            unclear = found
    if unclear:
        raise unclear
    return False
