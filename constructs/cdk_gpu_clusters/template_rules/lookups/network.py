"""Subnets, their zones, and security groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cdk_gpu_clusters.catalogue.lustre import lustre_ports
from cdk_gpu_clusters.rules.zones import is_zone_id
from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.choices import any_surely
from cdk_gpu_clusters.template_rules.lookups.groups import users_of
from cdk_gpu_clusters.template_rules.lookups.launches import INSTANCE, Launch, values_at
from cdk_gpu_clusters.template_rules.rule import applicable

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


def zone_in(resource: Resource) -> Value | None:
    """The zone that a subnet or a reservation names; None if it leaves it open."""
    zones = [resource.get("AvailabilityZone"), resource.get("AvailabilityZoneId")]
    return next((zone for zone in zones if zone.exists), None)


def subnets_by_user(launch: Launch) -> list[list[Value]]:
    """The subnets of the nodes of each resource that launches: one list each, without repetition."""
    own = values_at(launch.data, "NetworkInterfaces/*/SubnetId")
    named = [[*own, *subnets_of(user)] for user in users_of(launch)] or [own]
    return [list({value.identity(): value for value in values}.values()) for values in named]


def subnets_used(launch: Launch) -> list[Value]:
    """The subnets of the nodes of all of them.

    Raises:
        NotApplicable: If none is named.
    """
    return applicable([value for values in subnets_by_user(launch) for value in values])


def leave_the_subnet(launch: Launch) -> Iterator[Value]:
    """Subnets that are another than the first one of the same resource.

    Raises:
        Undecidable: If two might be the same.
    """
    for values in subnets_by_user(launch):
        for value in values[1:]:
            first, other = target_of(values[0], SUBNET), target_of(value, SUBNET)
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
    subnet = target_of(value, SUBNET)
    zone = None if subnet is None else zone_in(subnet)
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
    """The rules for traffic into a group of the template; ask for them with `group.once`."""
    return _rules(group, INGRESS, "Source")


def egress_rules(group: Resource) -> list[GroupRule]:
    """The rules for traffic out of a group of the template; ask for them with `group.once`."""
    return _rules(group, EGRESS, "Destination")


def _rules(group: Resource, resource_type: str, end: str) -> list[GroupRule]:
    """The rules in the properties of a group, and those that are resources of their own."""
    own = group.get(resource_type.rpartition("::")[2]).items()
    beside = group.case.resources_naming(group, resource_type)
    values = [*own, *(one.properties for one in beside if group.is_target_of(one.get("GroupId")))]
    return [GroupRule(value, _peer_of(value, end)) for value in values]


def _peer_of(value: Value, end: str) -> Value:
    by_id, by_name = value.get(f"{end}SecurityGroupId"), value.get(f"{end}SecurityGroupName")
    return by_id if by_id.exists or not by_name.exists else by_name


def allows_itself(value: Value, rules_of: Callable[[Resource], list[GroupRule]]) -> bool:
    """Whether a security group allows all traffic with itself, in the direction of the rules.

    Raises:
        Undecidable: If no rule surely does, and one might; if the group is not in the template.
    """
    group = target_of(value, SECURITY_GROUP)
    if group is None:
        raise value.undecidable("the rules of this security group are not in the template")
    return any_surely(group.once(rules_of), lambda rule: _is_all_within(group, rule))


def _is_all_within(group: Resource, rule: GroupRule) -> bool:
    if rule.peer.exists and group.is_target_of(rule.peer) and rule.is_all_traffic:
        return True
    if not rule.peer.is_known and rule.peer.exists and rule.peer.reference is None:
        rule.peer.text()  # raises Undecidable
    return False


Groups = list[tuple[Value, Resource | None]]


def groups_at(value: Value) -> Groups:
    """The groups of a list, each with its resource if the template has it."""
    return [(item, target_of(item, SECURITY_GROUP)) for item in value.items()]


def groups_of_launch(launch: Launch) -> Groups:
    """The groups of a launch: those of its interfaces, or its own."""
    values = [group for interface in launch.interfaces() for group in interface.groups]
    values = values or values_at(launch.data, "SecurityGroupIds/*")
    return [
        (value, target_of(value, SECURITY_GROUP)) for value in {value.identity(): value for value in values}.values()
    ]


def tcp_text(first: int, last: int) -> str:
    """A range of ports for people: `TCP 988`, `TCP 1018-1023`."""
    return f"TCP {first}" if first == last else f"TCP {first}-{last}"


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
        if not _lets(targets, sources, ingress_rules, at=at, ports=(first, last)):
            yield f"{tcp_text(first, last)} in"
        sends_all = any(_sends_all(group) for _, group in sources)
        if not sends_all and not _lets(sources, targets, egress_rules, at=at, ports=(first, last)):
            yield f"{tcp_text(first, last)} out"


def exchange_all(groups: Groups, peers: Groups, *, at: Value) -> bool:
    """Whether groups allow all traffic with peers, in and out, by naming them: addresses do not count for EFA.

    Raises:
        Undecidable: If no rule surely does, and one might.
    """
    return all(_lets(groups, peers, rules_of, at=at) for rules_of in (ingress_rules, egress_rules))


def _sends_all(group: Resource | None) -> bool:
    """Whether a group has EC2's own rule for all traffic out, which goes when the group names rules itself."""
    return group is not None and not group.get("SecurityGroupEgress").exists


def _lets(
    owners: Groups,
    peers: Groups,
    rules_of: Callable[[Resource], list[GroupRule]],
    *,
    at: Value,
    ports: tuple[int, int] | None = None,
) -> bool:
    """Whether a rule of owners allows a range of TCP ports with peers, or all traffic by the peers' names."""
    known = [group for _, group in owners if group is not None]
    names = {value.identity() for value, _ in peers}
    resources = {group for _, group in peers if group is not None}
    unclear = len(known) < len(owners) or not owners or not peers
    for group in known:
        for rule in group.once(rules_of):
            if not (rule.allows_tcp(*ports) if ports else rule.is_all_traffic):
                continue
            if not rule.peer.exists:
                address = rule.value.get("CidrIp")
                if ports and address.is_known and address.text() == "0.0.0.0/0":
                    return True
                unclear = unclear or ports is not None
            elif rule.peer.identity() in names or target_of(rule.peer, SECURITY_GROUP) in resources:
                return True
            elif target_of(rule.peer, SECURITY_GROUP) is None:
                unclear = True
    if unclear:
        raise at.undecidable("it depends on security groups or addresses that are not in the template")
    return False
