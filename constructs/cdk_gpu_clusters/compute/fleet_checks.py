"""What can be wrong with a fleet, beyond its type, its capacity and its interfaces."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters._cdk import known
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.rules.fleet import check_public_subnet
from cdk_gpu_clusters.rules.ip_budget import IpDemand, check_ip_budget
from cdk_gpu_clusters.rules.zones import read_zone

_EFA_PAGE = 'AWS EC2 user guide, "Elastic Fabric Adapter for AI/ML and HPC workloads on Amazon EC2"'

EFA_ONE_SUBNET = define_rule("GPU-FLT-002", "an EFA fleet stands in one subnet", source=_EFA_PAGE)
RESERVATION_ZONE = define_rule(
    "GPU-FLT-004",
    "a fleet stands in the zone of its reservation",
    source='AWS EC2 user guide, "On-Demand Capacity Reservations"',
)
BLOCK_ONE_SUBNET = define_rule(
    "GPU-FLT-006", "a reserved fleet stands in one subnet", source="EC2 Auto Scaling guide, Capacity Blocks"
)


def check_subnets(
    vpc: ec2.IVpc, subnets: Sequence[ec2.ISubnet], *, interface_count: int, one_zone: bool, efa: bool
) -> list[Finding]:
    """Find what is wrong with the subnets of a fleet.

    Args:
        vpc: Network of the fleet.
        subnets: Where its nodes stand.
        interface_count: Network interfaces of a node.
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
    findings += check_public_subnet(
        interface_count=interface_count, public=any(subnet.node.path in public for subnet in subnets)
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


def _is_id(zone: str | None) -> bool:
    read = None if zone is None else read_zone(zone)
    return read is not None and read.is_id
