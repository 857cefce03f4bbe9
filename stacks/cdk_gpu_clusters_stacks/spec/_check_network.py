"""Network checks: zone and Region, division of a new VPC, addresses for all nodes, public subnets."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network

from cdk_gpu_clusters.catalogue.regions import region as look_up
from cdk_gpu_clusters.errors import ConfigError, Finding, errors_in
from cdk_gpu_clusters.network.subnets import check_subnets, plan_subnets
from cdk_gpu_clusters.rules.fabric import check_efa_group
from cdk_gpu_clusters.rules.fleet import check_public_subnet
from cdk_gpu_clusters.rules.ip_budget import IpDemand, check_ip_budget
from cdk_gpu_clusters.rules.lustre import check_lustre
from cdk_gpu_clusters.rules.zones import check_zone

from ._check_fleet import FleetView
from ._fault import Fault, faults_at, under
from ._parts import SpecParts
from ._rules import SUBNET_RANGE, SUBNET_TWICE
from .data import LustreSpec
from .network import ExistingNetwork, NewNetwork

_NETWORK = ("network",)
#: Stand for the zones of the account, whose names synthesis cannot know; any two divide the VPC the same way.
_ANY_ZONES = ("Zone1", "Zone2")


def check_network(
    parts: SpecParts, fleets: Sequence[FleetView], *, wrong_region: str | None = None
) -> list[Fault]:
    """Find what is wrong with the network, by itself and for the fleets that run in it.

    Args:
        parts: The file's sound parts: the network, the Region, and file systems, which take addresses too.
        fleets: Fleets whose instance type is known.
        wrong_region: What stands for the Region in the file, if there is no such Region.
    """
    network, region = parts.network, parts.region
    if network is None:
        return []
    others = _file_systems(parts)
    faults: list[Fault] = []
    if wrong_region is None or not network.availability_zone.startswith(wrong_region):
        faults += _check_zone(network.availability_zone, region, fleets)
    if isinstance(network, NewNetwork):
        return faults + _check_new(network, fleets, others)
    return faults + _check_existing(network, fleets, others)


def check_region(region: str) -> list[Fault]:
    """Find a Region that the catalogue does not have: misspelt, or too new for the facts that synthesis needs."""
    try:
        look_up(region)
    except ConfigError as fault:
        return faults_at(("region",), fault.findings)
    return []


def _check_zone(zone: str, region: str | None, fleets: Sequence[FleetView]) -> list[Fault]:
    known = check_zone(region, zone)
    faults = faults_at((*_NETWORK, "availability_zone"), known)
    if errors_in(known):
        return faults
    for fleet in fleets:
        about_type = [finding for finding in check_zone(region, zone, fleet.type) if finding not in known]
        faults += faults_at((*fleet.key, "instance_type"), about_type)
    return faults


def _check_new(network: NewNetwork, fleets: Sequence[FleetView], others: Sequence[IpDemand]) -> list[Fault]:
    prefix = network.fleet_subnet_prefix
    findings = check_subnets(network.cidr, fleet_subnet_prefix=prefix, control_zones=_ANY_ZONES)
    faults = under(_NETWORK, findings)
    if errors_in(findings):
        return faults
    plan = plan_subnets(network.cidr, fleet_subnet_prefix=prefix, control_zones=_ANY_ZONES)
    subnet = plan.fleet.cidr(IPv4Network(network.cidr))
    where = "cidr" if prefix is None else "fleet_subnet_prefix"
    return faults + faults_at((*_NETWORK, where), _check_budget(subnet, fleets, others))


def _check_existing(
    network: ExistingNetwork, fleets: Sequence[FleetView], others: Sequence[IpDemand]
) -> list[Fault]:
    faults = _check_subnets(network)
    if network.cidr is not None:
        findings = _check_range(network) or _check_budget(network.cidr, fleets, others)
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


def _check_subnets(network: ExistingNetwork) -> list[Fault]:
    """Find subnets that are named twice, each at its second place."""
    ids = network.subnet_ids
    return [
        fault
        for index, subnet in enumerate(ids)
        if subnet in ids[:index]
        for fault in faults_at(
            (*_NETWORK, "subnet_ids", index),
            [SUBNET_TWICE.finding(cause="the subnet is named before", got=subnet, fix="remove one of them")],
        )
    ]


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


def _file_systems(parts: SpecParts) -> list[IpDemand]:
    """One address for each server of a file system that is sound."""
    return [
        IpDemand(nodes=0, addresses_per_node=0, other=store.lustre.sizing.ip_addresses, name=name)
        for name, store in (parts.stores or {}).items()
        if isinstance(store, LustreSpec) and not errors_in(check_lustre(store.lustre.sizing))
    ]


def _check_budget(subnet: str, fleets: Sequence[FleetView], others: Sequence[IpDemand]) -> list[Finding]:
    demands = [
        IpDemand(
            nodes=fleet.spec.maximum_nodes,
            addresses_per_node=fleet.plan.ip_addresses_per_node,
            name=fleet.name,
        )
        for fleet in fleets
        if fleet.plan is not None and not fleet.broken & {"nodes", "max_nodes", "interface_policy", "efa"}
    ]
    return check_ip_budget(subnet, [*demands, *others])
