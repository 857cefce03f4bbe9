"""Subnets, their zones, and security groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cdk_gpu_clusters.catalogue.lustre import lustre_ports
from cdk_gpu_clusters.rules.zones import is_zone_id
from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.choices import Undecidable
from cdk_gpu_clusters.template_rules.lookups.groups import users_of
from cdk_gpu_clusters.template_rules.lookups.launches import INSTANCE, Launch, values_at

SUBNET = "AWS::EC2::Subnet"

#: Where resources that launch name their subnets.
_SUBNETS: dict[str, tuple[str, ...]] = {
    "AWS::AutoScaling::AutoScalingGroup": ("VPCZoneIdentifier/*",),
    "AWS::Batch::ComputeEnvironment": ("ComputeResources/Subnets/*",),
    "AWS::EC2::EC2Fleet": ("LaunchTemplateConfigs/*/Overrides/*/SubnetId",),
    "AWS::EC2::SpotFleet": ("SpotFleetRequestConfigData/LaunchTemplateConfigs/*/Overrides/*/SubnetId",),
    "AWS::EKS::Nodegroup": ("Subnets/*",),
    "AWS::PCS::ComputeNodeGroup": ("SubnetIds/*",),
    INSTANCE: ("SubnetId", "NetworkInterfaces/*/SubnetId"),
}


def subnets_of(resource: Resource) -> list[Value]:
    """The subnets that a resource names: a group, a fleet, an instance."""
    return [value for path in _SUBNETS.get(resource.type, ()) for value in values_at(resource.properties, path)]


def subnets_of_launch(launch: Launch) -> list[Value]:
    """The subnets that a launch, or who uses it, names."""
    own = values_at(launch.data, "NetworkInterfaces/*/SubnetId")
    if launch.resource.type == INSTANCE:
        own = subnets_of(launch.resource)
    return [*own, *(value for use in launch.uses() for value in subnets_of(use.resource))]


def subnet_of(value: Value) -> Resource | None:
    """The subnet of the template that a value names; None if it is another one."""
    target = target_of(value)
    return target if target is not None and target.type == SUBNET else None


def zone_of(value: Value) -> Value | None:
    """The zone of the subnet that a value names; None if the subnet is not in the template, or leaves it open."""
    subnet = subnet_of(value)
    return None if subnet is None else zone_in(subnet)


def zone_in(resource: Resource) -> Value | None:
    """The zone that a subnet or a reservation names; None if it leaves it open."""
    zones = [resource.get("AvailabilityZone"), resource.get("AvailabilityZoneId")]
    return next((zone for zone in zones if zone.exists), None)


def subnets_by_user(launch: Launch) -> list[list[Value]]:
    """The subnets of the nodes of each resource that launches: one list each, without repetition."""
    own = values_at(launch.data, "NetworkInterfaces/*/SubnetId")
    named = [[*own, *subnets_of(user)] for user in users_of(launch)] or [own]
    return [list({value.identity(): value for value in values}.values()) for values in named]


def leave_the_subnet(launch: Launch) -> Iterator[Value]:
    """Subnets that are another than the first one of the same resource.

    Raises:
        Undecidable: If two might be the same.
    """
    for values in subnets_by_user(launch):
        for value in values[1:]:
            first, other = subnet_of(values[0]), subnet_of(value)
            same = first == other if first is not None and other is not None else value.is_same_as(values[0])
            if not same:
                yield value


def subnets_outside_zone(launch: Launch) -> Iterator[tuple[Value, str]]:
    """Subnets in another zone than the first one of the same resource, with both zones.

    Raises:
        Undecidable: If the zone of a subnet is not known, and there are several subnets.
    """
    for values in subnets_by_user(launch):
        for value in values[1:]:
            first, other = known_zone_of(values[0]), known_zone_of(value)
            if not is_same_zone(first, other):
                yield value, f"{first.text()} and {other.text()}"


def known_zone_of(value: Value) -> Value:
    """The zone of the subnet that a value names.

    Raises:
        Undecidable: If the subnet is not in the template, or leaves it open.
    """
    zone = zone_of(value)
    if zone is None:
        raise value.undecidable("the zone of this subnet is not in the template")
    return zone


def is_same_zone(one: Value, other: Value) -> bool:
    """Whether two zones are one.

    Raises:
        Undecidable: If they are not known, or one is a name and the other an id: accounts differ in which is which.
    """
    same = one.is_same_as(other)
    if not same and is_zone_id(one.text() or "") != is_zone_id(other.text() or ""):
        raise other.undecidable("the name of a zone cannot be compared with the id of one")
    return same


SECURITY_GROUP = "AWS::EC2::SecurityGroup"
INGRESS = "AWS::EC2::SecurityGroupIngress"
EGRESS = "AWS::EC2::SecurityGroupEgress"

_EVERY_PROTOCOL = ("-1", "all")


@dataclass(frozen=True, slots=True)
class GroupRule:
    """One rule of a security group.

    Attributes:
        value: Its properties.
        peer: The security group at the other end; absent where the rule is about addresses or prefix lists.
    """

    value: Value
    peer: Value

    @property
    def is_all_traffic(self) -> bool:
        """Whether it allows every protocol and port."""
        return self.value.get("IpProtocol").text() in _EVERY_PROTOCOL

    def allows_tcp(self, first: int, last: int) -> bool:
        """Whether it allows a range of TCP ports."""
        if self.is_all_traffic:
            return True
        if self.value.get("IpProtocol").text() not in ("tcp", "6"):
            return False
        lowest, highest = self.value.get("FromPort").integer(), self.value.get("ToPort").integer()
        return lowest is not None and highest is not None and lowest <= first and last <= highest


def ingress_rules(group: Resource) -> list[GroupRule]:
    """The rules for traffic into a group of the template."""
    own = group.get("SecurityGroupIngress").items()
    return [*_rules(own, "Source"), *group.once(_ingress_beside)]


def egress_rules(group: Resource) -> list[GroupRule]:
    """The rules for traffic out of a group of the template."""
    own = group.get("SecurityGroupEgress").items()
    return [*_rules(own, "Destination"), *group.once(_egress_beside)]


def allows_itself(group: Resource, rules: list[GroupRule]) -> bool:
    """Whether one of a group's rules allows all traffic with the same group.

    Raises:
        Undecidable: If none surely does, and one might.
    """
    unclear: Undecidable | None = None
    for rule in rules:
        try:
            if rule.peer.exists and group.is_target_of(rule.peer) and rule.is_all_traffic:
                return True
            if not rule.peer.is_known and rule.peer.exists and rule.peer.reference is None:
                rule.peer.text()
        except Undecidable as found:
            unclear = found
    if unclear:
        raise unclear
    return False


def group_of(value: Value) -> Resource | None:
    """The security group of the template that a value names; None if it is another one."""
    target = target_of(value)
    return target if target is not None and target.type == SECURITY_GROUP else None


def _rules(values: list[Value], end: str) -> Iterator[GroupRule]:
    for value in values:
        peers = (f"{end}SecurityGroupId", f"{end}SecurityGroupName")
        named = next((key for key in peers if value.get(key).exists), peers[0])
        yield GroupRule(value, value.get(named))


def _ingress_beside(group: Resource) -> list[GroupRule]:
    return _beside(group, INGRESS, "Source")


def _egress_beside(group: Resource) -> list[GroupRule]:
    return _beside(group, EGRESS, "Destination")


def _beside(group: Resource, resource_type: str, end: str) -> list[GroupRule]:
    """The rules of a group that are resources of their own."""
    rules = group.case.resources_naming(group, resource_type)
    own = [rule.properties for rule in rules if group.is_target_of(rule.get("GroupId"))]
    return list(_rules(own, end))


Groups = list[tuple[Value, Resource | None]]


def groups_at(value: Value) -> Groups:
    """The groups of a list, each with its resource if the template has it."""
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
        at: The value to report if a group is unknown.
        ranges: TCP ports to check, first and last; all that Lustre uses by default.

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
        _lets(groups, peers, rules_of, _is_all, at=at, by_address=False) for rules_of in (ingress_rules, egress_rules)
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
        raise at.undecidable("it depends on security groups or addresses that are not in the template")
    return False


def _is_anywhere(rule: GroupRule) -> bool:
    address = rule.value.get("CidrIp")
    return address.is_known and address.text() == "0.0.0.0/0"
