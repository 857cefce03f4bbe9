"""Whether a fleet's subnets suit it: their number, their zones, their addresses."""

from __future__ import annotations

from collections.abc import Sequence

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.fleet.request import SubnetFacts
from cdk_gpu_clusters.rules.fabric import check_efa_group
from cdk_gpu_clusters.rules.fleet import RESERVATION_ZONE, RESERVED_ONE_ZONE
from cdk_gpu_clusters.rules.ip_budget import IpDemand, check_ip_budget
from cdk_gpu_clusters.rules.zones import read_zone

NO_SUBNET = define_rule("GPU-FLT-002", "A fleet needs a subnet", source="EC2 Auto Scaling VPCZoneIdentifier")


def zones_of(subnets: Sequence[SubnetFacts]) -> set[str]:
    """The zones of subnets, as far as they are known."""
    return {subnet.zone for subnet in subnets if subnet.zone is not None}


def check_subnets(
    subnets: Sequence[SubnetFacts], instance_type: InstanceType, *, one_zone: bool, efa: bool
) -> list[Finding]:
    """Find what is wrong with the number and the zones of a fleet's subnets.

    Args:
        subnets: Subnets of the nodes.
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
    zones = zones_of(subnets)
    if efa:
        return check_efa_group([instance_type], zones=zones, subnets=[subnet.name for subnet in subnets])
    if one_zone and len(zones) > 1:
        return [
            RESERVED_ONE_ZONE.finding(
                cause="reserved capacity lies in one Availability Zone",
                got=f"subnets in {', '.join(sorted(zones))}",
                allowed="subnets of one zone",
                fix="choose the subnets of the reservation's zone",
            )
        ]
    return []


def check_reservation_zone(zone: str | None, subnets: Sequence[SubnetFacts]) -> list[Finding]:
    """Find a fleet in another zone than its reservation, as far as both are known.

    Args:
        zone: Zone name or id of the reservation, None if unknown.
        subnets: Subnets of the nodes.
    """
    zones = zones_of(subnets)
    if zone is None or not zones or zones == {zone}:
        return []
    # A name and an id cannot be compared: the zone of an id differs between accounts.
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


def check_addresses_left(subnets: Sequence[SubnetFacts], demand: IpDemand) -> list[Finding]:
    """Find a subnet that is too small for the fleet alone, as far as its block is known.

    Args:
        subnets: Subnets of the nodes; only a single one is counted.
        demand: What the fleet takes.
    """
    if len(subnets) != 1 or demand.nodes < 1 or subnets[0].ipv4_block is None:
        return []
    return check_ip_budget(subnets[0].ipv4_block, [demand])


def _is_id(zone: str) -> bool:
    read = read_zone(zone)
    return read is not None and read.is_id
