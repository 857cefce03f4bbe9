"""What can be wrong with a fleet, beyond its type, its capacity and its interfaces."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters._cdk import known
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.rules.ip_budget import IpDemand, check_ip_budget
from cdk_gpu_clusters.rules.zones import read_zone

_EFA_PAGE = 'AWS EC2 user guide, "Elastic Fabric Adapter for AI/ML and HPC workloads on Amazon EC2"'
_CARDS_PAGE = (
    'AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network cards"'
)

FLEET_SIZE = define_rule(
    "GPU-FLT-001", "a fleet has at least one node, and a minimum not above its maximum", source="design"
)
EFA_ONE_SUBNET = define_rule("GPU-FLT-002", "an EFA fleet stands in one subnet", source=_EFA_PAGE)
EFA_PUBLIC_SUBNET = define_rule(
    "GPU-FLT-003", "nodes with several interfaces stand in a private subnet", source=_CARDS_PAGE
)
RESERVATION_ZONE = define_rule(
    "GPU-FLT-004",
    "a fleet stands in the zone of its reservation",
    source='AWS EC2 user guide, "On-Demand Capacity Reservations"',
)
HOOK_TIMEOUT = define_rule(
    "GPU-FLT-005",
    "a lifecycle hook waits 30 to 7,200 seconds",
    source="EC2 Auto Scaling guide, lifecycle hooks",
)
BLOCK_ONE_SUBNET = define_rule(
    "GPU-FLT-006", "a reserved fleet stands in one subnet", source="EC2 Auto Scaling guide, Capacity Blocks"
)


def check_size(minimum: int | None, maximum: int | None) -> list[Finding]:
    """Find what is wrong with a fleet's size.

    Args:
        minimum: Least nodes, None if not given.
        maximum: Most nodes, None if not given.
    """
    if minimum is not None and maximum is not None and 0 <= minimum <= maximum and maximum >= 1:
        return []
    return [
        FLEET_SIZE.finding(
            cause="that is not a size of a fleet",
            got=f"{_or_nothing(minimum)} to {_or_nothing(maximum)} nodes",
            allowed="node_count of 1 or more, or 0 <= min_node_count <= max_node_count",
            fix="give node_count, or both min_node_count and max_node_count",
        )
    ]


def check_subnets(
    vpc: ec2.IVpc, subnets: Sequence[ec2.ISubnet], *, several_interfaces: bool, one_zone: bool, efa: bool
) -> list[Finding]:
    """Find what is wrong with the subnets of a fleet.

    Args:
        vpc: Network of the fleet.
        subnets: Where its nodes stand.
        several_interfaces: Whether a node has more than one network interface.
        one_zone: Whether reserved capacity pins the fleet to one zone.
        efa: Whether the nodes exchange EFA traffic.
    """
    findings = []
    if len(subnets) != 1 and (efa or one_zone):
        rule, why = (
            (EFA_ONE_SUBNET, "EFA traffic stays in one Availability Zone")
            if efa
            else (BLOCK_ONE_SUBNET, "reserved capacity lies in one Availability Zone")
        )
        findings.append(
            rule.finding(
                cause=f"the fleet needs exactly one subnet: {why}",
                got=f"{len(subnets)} subnets",
                allowed="one subnet",
                fix="pass vpc_subnets=ec2.SubnetSelection(subnets=[the_subnet])",
            )
        )
    public = {subnet.node.path for subnet in vpc.public_subnets}
    if several_interfaces and any(subnet.node.path in public for subnet in subnets):
        findings.append(
            EFA_PUBLIC_SUBNET.finding(
                cause="EC2 assigns no public address to a node with several network interfaces, so that in a public "
                "subnet it reaches nothing",
                got="a public subnet",
                allowed="a private subnet with a NAT gateway or endpoints",
                fix="choose a private subnet",
            )
        )
    return findings


def check_reservation_zone(reservation_zone: str | None, subnets: Sequence[ec2.ISubnet]) -> list[Finding]:
    """Find a fleet that stands in another zone than its reservation, as far as both are known.

    Args:
        reservation_zone: Zone name or id of the reservation, None if only EC2 knows it.
        subnets: Where the nodes stand.
    """
    zone = known(reservation_zone)
    zones = {known(subnet.availability_zone) for subnet in subnets} - {None}
    if zone is None or not zones or zones == {zone}:
        return []
    # A name and an id cannot be compared: which is which differs between accounts.
    if len({_is_id(name) for name in (zone, *zones)}) > 1:
        return []
    return [
        RESERVATION_ZONE.finding(
            cause="the reservation lies in another Availability Zone than the fleet's subnet",
            got=f"reservation in {zone}, subnet in {', '.join(sorted(map(str, zones)))}",
            allowed="the same zone for both",
            fix="make the reservation in the subnet's zone, or choose another subnet",
        )
    ]


def check_addresses_left(subnets: Sequence[ec2.ISubnet], demand: IpDemand) -> list[Finding]:
    """Find a subnet that is too small for the fleet alone, as far as its block is known.

    Args:
        subnets: Where the nodes stand; only a single one is counted.
        demand: What the fleet takes.
    """
    if len(subnets) != 1 or demand.nodes < 1:
        return []
    try:
        cidr = known(subnets[0].ipv4_cidr_block)
    except RuntimeError:  # CDK's way to say that an imported subnet came without its block
        return []
    return [] if cidr is None else check_ip_budget(cidr, [demand])


def check_timeout(name: str, seconds: int) -> list[Finding]:
    """Find a lifecycle-hook time-out that EC2 Auto Scaling would refuse.

    Args:
        name: Name of the value, for the message.
        seconds: Time-out in seconds.
    """
    if 30 <= seconds <= 7200:
        return []
    return [
        HOOK_TIMEOUT.finding(
            cause=f"{name} is no time-out of a lifecycle hook",
            got=f"{seconds} seconds",
            allowed="30 to 7,200 seconds",
            fix=f"change {name}",
        )
    ]


def _or_nothing(value: int | None) -> str:
    return "nothing" if value is None else str(value)


def _is_id(zone: str | None) -> bool:
    read = None if zone is None else read_zone(zone)
    return read is not None and read.is_id
