"""Where nodes are launched: subnets and their zones."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.rules.zones import is_zone_id
from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.lookups.group_sizes import users_of
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
    return [
        value for path in _SUBNETS.get(resource.type, ()) for value in values_at(resource.properties, path)
    ]


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


def leave_the_zone(launch: Launch) -> Iterator[tuple[Value, str]]:
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
        raise value.undecidable("the zone of this subnet stands in no part of the template")
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
