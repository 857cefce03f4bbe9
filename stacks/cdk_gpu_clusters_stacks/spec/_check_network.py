"""Network checks: zone and Region, division of a new VPC, addresses for all nodes, public subnets."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network

from cdk_gpu_clusters.catalogue.regions import UNKNOWN_REGION
from cdk_gpu_clusters.errors import Finding, errors_in
from cdk_gpu_clusters.network.subnets import check_subnets, plan_subnets
from cdk_gpu_clusters.rules.fabric import check_efa_group
from cdk_gpu_clusters.rules.fleet import check_public_subnet
from cdk_gpu_clusters.rules.ip_budget import IpDemand, check_ip_budget
from cdk_gpu_clusters.rules.zones import check_zone

from ._check_fleet import FleetView
from ._fault import Fault, faults_at, under
from ._rules import SUBNET_RANGE
from .network import ExistingNetwork, NewNetwork

_NETWORK = ("network",)
#: Stand for the zones of the account, whose names synthesis cannot know; any two divide the VPC the same way.
_ANY_ZONES = ("Zone1", "Zone2")


def check_network(
    network: NewNetwork | ExistingNetwork, region: str | None, fleets: Sequence[FleetView]
) -> list[Fault]:
    """Find what is wrong with the network, by itself and for the fleets that run in it.

    Args:
        network: The network.
        region: Region of the cluster, None if it is not sound.
        fleets: Fleets whose instance type is known.
    """
    zone = network.availability_zone
    found = [finding for finding in check_zone(region, zone) if finding.id != UNKNOWN_REGION.id]
    faults = faults_at((*_NETWORK, "availability_zone"), found)
    if not errors_in(found):
        known = check_zone(region, zone)
        for fleet in fleets:
            about_type = [finding for finding in check_zone(region, zone, fleet.type) if finding not in known]
            faults += faults_at((*fleet.key, "instance_type"), about_type)
    if isinstance(network, NewNetwork):
        return faults + _check_new(network, fleets)
    return faults + _check_existing(network, fleets)


def check_region(region: str) -> list[Fault]:
    """Find a Region that there is not."""
    # the rules have no check of a Region alone; a zone named after it can have no fault of its own
    found = [finding for finding in check_zone(region, f"{region}a") if finding.id == UNKNOWN_REGION.id]
    return faults_at(("region",), found)


def _check_new(network: NewNetwork, fleets: Sequence[FleetView]) -> list[Fault]:
    prefix = network.fleet_subnet_prefix
    findings = check_subnets(network.cidr, fleet_subnet_prefix=prefix, control_zones=_ANY_ZONES)
    faults = under(_NETWORK, findings)
    if errors_in(findings):
        return faults
    plan = plan_subnets(network.cidr, fleet_subnet_prefix=prefix, control_zones=_ANY_ZONES)
    subnet = plan.fleet.cidr(IPv4Network(network.cidr))
    where = "cidr" if prefix is None else "fleet_subnet_prefix"
    return faults + faults_at((*_NETWORK, where), _check_budget(subnet, fleets))


def _check_existing(network: ExistingNetwork, fleets: Sequence[FleetView]) -> list[Fault]:
    faults: list[Fault] = []
    if network.cidr is not None:
        findings = _check_range(network) or _check_budget(network.cidr, fleets)
        faults += faults_at((*_NETWORK, "cidr"), findings)
    for fleet in fleets:
        if not fleet.uses_efa or "efa" in fleet.broken:
            continue
        faults += faults_at(
            (*_NETWORK, "subnet_ids"), check_efa_group([fleet.type], subnets=network.subnet_ids)
        )
        if fleet.plan is not None:
            findings = check_public_subnet(interface_count=len(fleet.plan.interfaces), public=network.public)
            faults += faults_at((*_NETWORK, "public"), findings)
    return faults


def _check_range(network: ExistingNetwork) -> list[Finding]:
    if len(network.subnet_ids) == 1:
        return []
    return [
        SUBNET_RANGE.finding(
            cause="one range cannot describe several subnets",
            got=f"{len(network.subnet_ids)} subnet_ids",
            allowed="cidr with one subnet",
            fix="remove cidr, or keep one subnet",
        )
    ]


def _check_budget(subnet: str, fleets: Sequence[FleetView]) -> list[Finding]:
    demands = [
        IpDemand(
            nodes=fleet.spec.maximum_nodes,
            addresses_per_node=fleet.plan.ip_addresses_per_node,
            name=fleet.name,
        )
        for fleet in fleets
        if fleet.plan is not None and not fleet.broken & {"nodes", "max_nodes", "interface_policy", "efa"}
    ]
    return check_ip_budget(subnet, demands)
