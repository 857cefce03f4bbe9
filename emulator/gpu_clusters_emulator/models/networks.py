"""Subnets and security groups: they exist, fit together, and stay while something uses them.

Source: EC2 API, DeleteSubnet and DeleteSecurityGroup (DependencyViolation while a network interface uses them).
Ranges: EC2 API, CreateVpc (InvalidVpc.Range: /16 to /28) and CreateSubnet (InvalidSubnet.Range and .Conflict); VPC
user guide, "Subnet sizing": five addresses of each subnet are AWS's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Any

from ..faults import Fault
from ..world import Json, Type, World

# Types with network interfaces of their own, and their properties with subnets and security groups.
_HOLDERS = (
    (Type.FILE_SYSTEM, "SubnetIds", "SecurityGroupIds"),
    (Type.MOUNT_TARGET, "SubnetId", "SecurityGroups"),
    (Type.LOAD_BALANCER, "Subnets", "SecurityGroups"),
    ("AWS::EC2::VPCEndpoint", "SubnetIds", "SecurityGroupIds"),
    ("AWS::EC2::NatGateway", "SubnetId", ""),
)


def subnet_faults(subnets: Iterable[str], world: World, path: str) -> Iterator[Fault]:
    """Faults of the subnets of a resource."""
    for subnet in subnets:
        if world.zone_of_subnet(subnet) is None:
            yield Fault("subnet-missing", f"the subnet {subnet!r} does not exist", path)


_PREFIXES = range(16, 29)
_RESERVED_ADDRESSES = 5


def vpc_range_faults(properties: Json, _world: World) -> Iterator[Fault]:
    """Faults of the range of an `AWS::EC2::VPC`."""
    yield from _range_faults(properties.get("CidrBlock"), "VPC")


def subnet_range_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of the range of an `AWS::EC2::Subnet`: in its VPC, and beside the other subnets."""
    cidr, vpc = properties.get("CidrBlock"), world.find("AWS::EC2::VPC", properties.get("VpcId", ""))
    faults = list(_range_faults(cidr, "subnet"))
    yield from faults
    if faults or cidr is None:
        return
    own = ipaddress.ip_network(cidr)
    outer = [vpc.properties.get("CidrBlock")] if vpc else []
    outer += [
        one.properties.get("CidrBlock")
        for one in world.of_type("AWS::EC2::VPCCidrBlock")
        if vpc and one.properties["VpcId"] == vpc.physical_id
    ]
    ranges = [ipaddress.ip_network(one) for one in outer if one]
    if ranges and not any(_within(own, one) for one in ranges):
        yield Fault("subnet-range", f"the CIDR '{cidr}' is invalid: it is not in the VPC's {outer}", "CidrBlock")
    for other in world.of_type(Type.SUBNET):
        taken = other.properties.get("CidrBlock")
        if taken and other.properties["VpcId"] == properties["VpcId"] and own.overlaps(ipaddress.ip_network(taken)):
            message = f"the CIDR '{cidr}' conflicts with another subnet: {other.physical_id} has {taken}"
            yield Fault("subnet-conflict", message, "CidrBlock")


def _within(inner: ipaddress.IPv4Network | ipaddress.IPv6Network, outer: Any) -> bool:
    return inner.version == outer.version and bool(
        inner.network_address in outer and inner.prefixlen >= outer.prefixlen
    )


def _range_faults(cidr: str | None, what: str) -> Iterator[Fault]:
    if cidr is None:
        return
    try:
        prefix = ipaddress.ip_network(cidr).prefixlen
    except ValueError as error:
        yield Fault("range", f"the {what}'s CIDR is invalid: {error}", "CidrBlock")
        return
    if prefix not in _PREFIXES:
        yield Fault("range", f"the CIDR '{cidr}' is invalid: a {what} is a /16 to a /28", "CidrBlock")


def free_addresses(world: World, subnet_id: str) -> int | None:
    """Addresses of a subnet that no instance has; None where its range is not known."""
    cidr = world.properties_of(Type.SUBNET, subnet_id).get("CidrBlock")
    if cidr is None:
        return None
    taken = sum(one.addresses for one in world.instances() if one.subnet_id == subnet_id)
    return ipaddress.ip_network(cidr).num_addresses - _RESERVED_ADDRESSES - taken


def group_faults(groups: Iterable[str], subnets: Iterable[str], world: World, path: str) -> Iterator[Fault]:
    """Faults of the security groups of network interfaces in subnets."""
    vpcs = {world.vpc_of_subnet(subnet) for subnet in subnets} - {None}
    for group in groups:
        made = world.find(Type.SECURITY_GROUP, group)
        if not world.has_security_group(group):
            yield Fault("security-group-missing", f"the security group {group!r} does not exist", path)
        elif made is not None and vpcs and made.properties.get("VpcId") not in vpcs:
            message = f"the security group {group} is in another VPC than the subnets"
            yield Fault("security-group-vpc", message, path)


def subnet_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::EC2::Subnet`."""
    holders = [holder for holder in _holders(world, 0) if physical_id in holder[1]]
    for group in world.groups.values():
        subnets = world.group_properties(group.name).get("VPCZoneIdentifier", [])
        if group.instances and physical_id in subnets:
            holders.append((f"instances of {group.name}", []))
    yield from _in_use(f"subnet '{physical_id}'", holders)


def group_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::EC2::SecurityGroup` that network interfaces have."""
    holders = [holder for holder in _holders(world, 1) if physical_id in holder[1]]
    for group in world.groups.values():
        data = world.data_of_group(group.name) or {}
        names = {name for one in data.get("NetworkInterfaces", []) for name in one.get("Groups", [])}
        if group.instances and physical_id in names | set(data.get("SecurityGroupIds", [])):
            holders.append((f"instances of {group.name}", []))
    yield from _in_use(f"security group '{physical_id}'", holders)


def _holders(world: World, position: int) -> Iterator[tuple[str, list[str]]]:
    for type_name, *names in _HOLDERS:
        for resource in world.of_type(type_name):
            held = resource.properties.get(names[position], [])
            yield resource.physical_id, [held] if isinstance(held, str) else held
    for type_name, networking in ((Type.CLUSTER, "ResourcesVpcConfig"), (Type.PCS_CLUSTER, "Networking")):
        for cluster in world.of_type(type_name):
            given = cluster.properties[networking]
            yield cluster.physical_id, given.get(("SubnetIds", "SecurityGroupIds")[position], [])


def _in_use(what: str, holders: list[tuple[str, list[str]]]) -> Iterator[Fault]:
    if holders:
        names = ", ".join(name for name, _ in holders)
        yield Fault("in-use", f"the {what} has dependencies and cannot be deleted: {names}")


# What EC2 refuses in security groups and their rules. Source: EC2 API, AuthorizeSecurityGroupIngress
# (InvalidGroup.NotFound) and DeleteSecurityGroup (DependencyViolation while another group's rule refers to it).

_PEERS = ("SourceSecurityGroupId", "DestinationSecurityGroupId")
_RULES = ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress")


def rule_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EC2::SecurityGroupIngress` or `...Egress`."""
    for name in ("GroupId", *_PEERS):
        group = properties.get(name)
        if group and not world.has_security_group(group):
            yield Fault("security-group-missing", f"the security group {group!r} does not exist", name)


def security_group_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EC2::SecurityGroup` with inline rules."""
    for side in ("SecurityGroupIngress", "SecurityGroupEgress"):
        for rule in properties.get(side, []):
            yield from rule_faults(rule, world)


def security_group_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::EC2::SecurityGroup`."""
    for type_name in _RULES:
        for rule in world.of_type(type_name):
            owner = rule.properties.get("GroupId")
            if owner != physical_id and physical_id in (rule.properties.get(name) for name in _PEERS):
                message = f"a rule of {owner} still refers to the security group {physical_id}"
                yield Fault("security-group-in-use", message)
