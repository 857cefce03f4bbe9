"""What can be wrong with a fleet, beyond its type, its capacity and its interfaces."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters._cdk import known, path_of
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.compute.fleet_subnets import ipv4_block_of, zones_of
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.rules.fabric import check_efa_group
from cdk_gpu_clusters.rules.fleet import RESERVATION_ZONE, RESERVED_ONE_ZONE
from cdk_gpu_clusters.rules.ip_budget import IpDemand, check_ip_budget
from cdk_gpu_clusters.rules.zones import read_zone

NO_SUBNET = define_rule(
    "GPU-FLT-002", "a fleet stands in a subnet", source="EC2 Auto Scaling VPCZoneIdentifier"
)


def check_subnets(
    subnets: Sequence[ec2.ISubnet], instance_type: InstanceType, *, one_zone: bool, efa: bool
) -> list[Finding]:
    """Find what is wrong with the number and the zones of a fleet's subnets.

    Args:
        subnets: Where the nodes stand.
        instance_type: Type of every node.
        one_zone: Whether reserved capacity pins the fleet to one zone.
        efa: Whether the nodes exchange EFA traffic.
    """
    if not subnets:
        return [
            NO_SUBNET.finding(
                cause="the fleet has no subnet",
                got="no subnets",
                allowed="one subnet or more",
                fix="pass vpc_subnets=ec2.SubnetSelection(subnets=[the_subnet])",
            )
        ]
    if efa:
        paths = [path_of(subnet) for subnet in subnets]
        return check_efa_group([instance_type], zones=zones_of(subnets), subnets=paths)
    if one_zone and len(zones_of(subnets)) > 1:
        return [
            RESERVED_ONE_ZONE.finding(
                cause="reserved capacity lies in one Availability Zone",
                got=f"subnets in {', '.join(sorted(zones_of(subnets)))}",
                allowed="subnets of one zone",
                fix="choose the subnets of the reservation's zone",
            )
        ]
    return []


def check_reservation_zone(reservation_zone: str | None, subnets: Sequence[ec2.ISubnet]) -> list[Finding]:
    """Find a fleet that stands in another zone than its reservation, as far as both are known.

    Args:
        reservation_zone: Zone name or id of the reservation, None if only EC2 knows it.
        subnets: Where the nodes stand.
    """
    zone = known(reservation_zone)
    zones = zones_of(subnets)
    if zone is None or not zones or zones == {zone}:
        return []
    # A name and an id cannot be compared: which is which differs between accounts.
    if len({_is_id(name) for name in (zone, *zones)}) > 1:
        return []
    return [
        RESERVATION_ZONE.finding(
            cause="the reservation lies in another Availability Zone than the fleet's subnet",
            got=f"reservation in {zone}, subnet in {', '.join(sorted(zones))}",
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
    cidr = ipv4_block_of(subnets[0])
    return [] if cidr is None else check_ip_budget(cidr, [demand])


def _is_id(zone: str) -> bool:
    read = read_zone(zone)
    return read is not None and read.is_id
