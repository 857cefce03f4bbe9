"""Subnets and security groups: that they exist, fit together, and stay while something stands in them.

Source: EC2 API, DeleteSubnet and DeleteSecurityGroup (DependencyViolation while a network interface uses them).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from ..world import CLUSTER, FILE_SYSTEM, LOAD_BALANCER, SECURITY_GROUP

if TYPE_CHECKING:
    from ..world import World

# Types with network interfaces of their own, and their properties with subnets and security groups.
_HOLDERS = (
    (FILE_SYSTEM, "SubnetIds", "SecurityGroupIds"),
    (LOAD_BALANCER, "Subnets", "SecurityGroups"),
    ("AWS::EC2::VPCEndpoint", "SubnetIds", "SecurityGroupIds"),
    ("AWS::EC2::NatGateway", "SubnetId", ""),
)


def subnet_faults(subnets: Iterable[str], world: World, path: str) -> Iterator[Fault]:
    """Faults of subnets that something is to stand in."""
    for subnet in subnets:
        if world.zone_of_subnet(subnet) is None:
            yield Fault(check="subnet-missing", message=f"the subnet {subnet!r} does not exist", path=path)


def group_faults(groups: Iterable[str], subnets: Iterable[str], world: World, path: str) -> Iterator[Fault]:
    """Faults of the security groups of network interfaces in subnets."""
    vpcs = {world.vpc_of_subnet(subnet) for subnet in subnets} - {None}
    for group in groups:
        made = world.find(SECURITY_GROUP, group)
        if not world.has_security_group(group):
            yield Fault(
                check="security-group-missing",
                message=f"the security group {group!r} does not exist",
                path=path,
            )
        elif made is not None and vpcs and made.properties.get("VpcId") not in vpcs:
            yield Fault(
                check="security-group-vpc",
                message=f"the security group {group} is in another VPC than the subnets",
                path=path,
            )


def subnet_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::EC2::Subnet`."""
    holders = [holder for holder in _holders(world, 0) if physical_id in holder[1]]
    holders += [
        (f"instances of {group.name}", [])
        for group in world.groups.values()
        if group.instances and physical_id in _properties(world, group.name).get("VPCZoneIdentifier", [])
    ]
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


def _properties(world: World, group: str) -> dict[str, Any]:
    resource = world.find("AWS::AutoScaling::AutoScalingGroup", group)
    return resource.properties if resource else {}


def _holders(world: World, position: int) -> Iterator[tuple[str, list[str]]]:
    for type_name, *names in _HOLDERS:
        for resource in world.of_type(type_name):
            held = resource.properties.get(names[position], [])
            yield resource.physical_id, [held] if isinstance(held, str) else held
    for cluster in world.of_type(CLUSTER):
        given = cluster.properties["ResourcesVpcConfig"]
        yield cluster.physical_id, given.get(("SubnetIds", "SecurityGroupIds")[position], [])


def _in_use(what: str, holders: list[tuple[str, list[str]]]) -> Iterator[Fault]:
    if holders:
        names = ", ".join(name for name, _ in holders)
        yield Fault(check="in-use", message=f"the {what} has dependencies and cannot be deleted: {names}")
