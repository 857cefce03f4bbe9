"""What two sets of security groups let through between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cdk_gpu_clusters.catalogue.lustre import lustre_ports
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.launches import Launch, values_at
from cdk_gpu_clusters.template_rules.lookups.security_groups import (
    GroupRule,
    egress_rules,
    group_of,
    ingress_rules,
)

Groups = list[tuple[Value, Resource | None]]


def groups_at(value: Value) -> Groups:
    """The groups of a list, each with its resource if it stands in the template."""
    return [(item, group_of(item)) for item in value.items()]


def groups_of_launch(launch: Launch) -> Groups:
    """The groups of a launch: those of its interfaces, or its own."""
    values = [group for interface in launch.interfaces() for group in interface.groups]
    values = values or values_at(launch.data, "SecurityGroupIds/*")
    return [(value, group_of(value)) for value in {value.identity(): value for value in values}.values()]


def missing_ports(
    sources: Groups, targets: Groups, *, at: Value, ranges: Sequence[tuple[int, int]] = lustre_ports()
) -> Iterator[str]:
    """What Lustre needs and no rule lets through: out of the sources, and into the targets.

    Args:
        sources: Groups of the one end.
        targets: Groups of the other end.
        at: Where it is told that a group is not known.
        ranges: TCP ports that are asked for, first and last; all that Lustre uses by default.

    Raises:
        Undecidable: If nothing surely lets it through, and something might.
    """
    for first, last in ranges:
        ports = f"TCP {first}" if first == last else f"TCP {first}-{last}"

        def fits(rule: GroupRule, first: int = first, last: int = last) -> bool:
            return rule.allows_tcp(first, last)

        if not _lets(targets, sources, ingress_rules, fits, at=at, by_address=True):
            yield f"{ports} in"
        if not any(_sends_all(group) for _, group in sources) and not _lets(
            sources, targets, egress_rules, fits, at=at, by_address=True
        ):
            yield f"{ports} out"


def exchange_all(groups: Groups, peers: Groups, *, at: Value) -> bool:
    """Whether groups allow all traffic with peers, in and out, by naming them: addresses do not count for EFA.

    Raises:
        Undecidable: If no rule surely does, and one might.
    """
    return all(
        _lets(groups, peers, rules_of, _is_all, at=at, by_address=False)
        for rules_of in (ingress_rules, egress_rules)
    )


def _is_all(rule: GroupRule) -> bool:
    return rule.is_all_traffic


def _sends_all(group: Resource | None) -> bool:
    """Whether a group has EC2's own rule for all traffic out, which goes when the group names rules itself."""
    return group is not None and not group.get("SecurityGroupEgress").exists


def _lets(
    owners: Groups,
    peers: Groups,
    rules_of: Callable[[Resource], list[GroupRule]],
    fits: Callable[[GroupRule], bool],
    *,
    at: Value,
    by_address: bool,
) -> bool:
    known = [group for _, group in owners if group is not None]
    names = {value.identity() for value, _ in peers}
    resources = {group for _, group in peers if group is not None}
    unclear = len(known) < len(owners) or not owners or not peers
    for group in known:
        for rule in rules_of(group):
            if not fits(rule):
                continue
            if not rule.peer.exists:
                if by_address and _is_anywhere(rule):
                    return True
                unclear = unclear or by_address
            elif rule.peer.identity() in names or group_of(rule.peer) in resources:
                return True
            elif group_of(rule.peer) is None:
                unclear = True
    if unclear:
        raise at.undecidable(
            "it depends on security groups or addresses that stand in no part of the template"
        )
    return False


def _is_anywhere(rule: GroupRule) -> bool:
    address = rule.value.get("CidrIp")
    return address.is_known and address.text() == "0.0.0.0/0"
