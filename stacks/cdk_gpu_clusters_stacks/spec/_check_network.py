"""Checks of Region, zones and network: subnets, addresses for all nodes, and places for load balancers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from math import ceil
from typing import Any

from cdk_gpu_clusters.catalogue.regions import region as look_up
from cdk_gpu_clusters.errors import ConfigError, Finding, errors_in
from cdk_gpu_clusters.network.subnets import check_subnets, plan_subnets
from cdk_gpu_clusters.rules.endpoints import check_endpoint_access
from cdk_gpu_clusters.rules.fabric import check_efa_group
from cdk_gpu_clusters.rules.fleet import check_public_subnet
from cdk_gpu_clusters.rules.homes import check_homes
from cdk_gpu_clusters.rules.inference import (
    LOAD_BALANCER_ADDRESSES,
    check_balancer_zones,
    check_zones_of_nodes,
)
from cdk_gpu_clusters.rules.ip_budget import IpDemand, check_ip_budget, smallest_prefix_for
from cdk_gpu_clusters.rules.lustre import check_lustre
from cdk_gpu_clusters.rules.zones import check_zone

from ._document import Fault, Key, faults_at, under
from ._parts import SpecParts
from ._rules import PUBLIC_SUBNETS, SERVICE_SUBNETS, SUBNET_RANGE, SUBNET_TWICE
from .data import LustreSpec, home_storage
from .inference import InferenceFleetSpec
from .network import ExistingNetwork, NewNetwork
from .planned_fleet import PlannedFleet

# Subnets, and addresses for all nodes.

_NETWORK = ("network",)


def check_network(parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find what is wrong with the network, by itself and for the fleets that run in its fleet subnet."""
    network = parts.network
    here = [fleet for fleet in fleets if not fleet.is_in_service_subnets and "capacity" not in fleet.broken]
    if isinstance(network, NewNetwork):
        return _check_new(network, here, _file_systems(parts))
    if isinstance(network, ExistingNetwork):
        return _check_existing(network, here, _file_systems(parts))
    return []


def _check_new(network: NewNetwork, fleets: Sequence[PlannedFleet], others: Sequence[IpDemand]) -> list[Fault]:
    prefix = network.fleet_subnet_prefix
    findings = check_subnets(network.cidr, fleet_subnet_prefix=prefix, control_zones=network.control_zones)
    faults = [fault for finding in findings for fault in _at_zone(network, finding)]
    given = network.endpoint_access is not None
    faults += under(_NETWORK, check_endpoint_access(closed=network.egress == "closed", given=given))
    if errors_in(findings):
        return faults
    plan = plan_subnets(network.cidr, fleet_subnet_prefix=prefix, control_zones=network.control_zones)
    subnet = plan.fleet.cidr(IPv4Network(network.cidr))
    where = "cidr" if prefix is None else "fleet_subnet_prefix"
    return faults + _at_nodes(_check_budget(subnet, fleets, others), fleets, (*_NETWORK, where))


def _at_nodes(findings: Iterable[Finding], fleets: Sequence[PlannedFleet], otherwise: Key) -> list[Fault]:
    """Place what no subnet has room for at the number of nodes, and else at the size of the subnet."""

    def addresses(fleet: PlannedFleet) -> int:
        known = fleet.plan.interfaces_or_none is not None
        return fleet.spec.maximum_nodes * fleet.plan.addresses_per_node if known else 0

    largest = max(fleets, key=addresses, default=None)
    if largest is None or smallest_prefix_for(addresses(largest)) is not None:
        return faults_at(otherwise, findings)
    return faults_at((*largest.key, "nodes" if largest.spec.nodes else "max_nodes"), findings)


def _at_zone(network: NewNetwork, finding: Finding) -> list[Fault]:
    """Place a finding about one of the control zones at it, any other at the key that it names."""
    zones, word = network.control_availability_zones or (), finding.got.rpartition(" ")[2]
    if finding.path != "control_availability_zones" or word not in zones or len(zones) < 2:
        return under(_NETWORK, [finding])
    last = len(zones) - 1 - zones[::-1].index(word)
    return faults_at((*_NETWORK, finding.path, last), [finding])


def _check_existing(
    network: ExistingNetwork, fleets: Sequence[PlannedFleet], others: Sequence[IpDemand]
) -> list[Fault]:
    faults = _check_subnets(network)
    if network.cidr is not None:
        findings = _check_range(network) or _check_budget(network.cidr, fleets, others)
        faults += faults_at((*_NETWORK, "cidr"), findings)
    for fleet in fleets:
        if not fleet.plan.efa or "efa" in fleet.broken:
            continue
        faults += faults_at(
            (*_NETWORK, "subnet_ids"), check_efa_group([fleet.plan.instance_type], subnets=network.subnet_ids)
        )
        if fleet.plan.interfaces_or_none is not None:
            findings = check_public_subnet(interface_count=len(fleet.plan.interfaces.interfaces), public=network.public)
            faults += faults_at((*_NETWORK, "public"), findings)
    return faults


def _check_subnets(network: ExistingNetwork) -> list[Fault]:
    """Find subnets that are named twice in one place, each at its second name."""
    lists: dict[str, Mapping[Any, str]] = {
        "subnet_ids": dict(enumerate(network.subnet_ids)),
        "service_subnets": network.service_subnets,
        "public_subnets": network.public_subnets,
    }
    faults: list[Fault] = []
    for name, subnets in lists.items():
        seen: set[str] = set()
        for place, subnet in subnets.items():
            if subnet in seen:
                finding = SUBNET_TWICE.finding(cause="the subnet is named before", got=subnet, fix="remove one of them")
                faults += faults_at((*_NETWORK, name, place), [finding])
            seen.add(subnet)
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


def _file_systems(parts: SpecParts) -> list[IpDemand]:
    """The addresses of the servers of valid file systems."""
    found: dict[str, int] = {}
    for name, store in (parts.stores or {}).items():
        homes = home_storage(store)
        if isinstance(store, LustreSpec) and not errors_in(check_lustre(store.lustre.sizing)):
            found[name] = store.lustre.sizing.ip_addresses
        elif homes is not None and not errors_in(check_homes(homes)):
            found[name] = homes.ip_addresses
    return [IpDemand(nodes=0, addresses_per_node=0, other=addresses, name=name) for name, addresses in found.items()]


def _check_budget(subnet: str, fleets: Sequence[PlannedFleet], others: Sequence[IpDemand]) -> list[Finding]:
    demands = [
        IpDemand(
            nodes=fleet.spec.maximum_nodes,
            addresses_per_node=fleet.plan.addresses_per_node,
            name=fleet.name,
        )
        for fleet in fleets
        if fleet.plan.interfaces_or_none is not None
        and not fleet.broken & {"nodes", "max_nodes", "interface_policy", "efa"}
    ]
    return check_ip_budget(subnet, [*demands, *others])


# Subnets of load balancers, and of inference nodes without reserved capacity.

_FACING = "load_balancer.internet_facing"


def check_service_network(network: NewNetwork | ExistingNetwork, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find load balancers without subnets for them, and nodes that they could not reach."""
    serving = [
        fleet
        for fleet in fleets
        if isinstance(fleet.spec, InferenceFleetSpec) and (fleet.is_in_service_subnets or _is_balanced(fleet))
    ]
    if isinstance(network, NewNetwork):
        return _check_balancers_of_new(network, serving)
    return _check_balancers_of_existing(network, serving)


def _is_balanced(fleet: PlannedFleet) -> bool:
    """Whether a load balancer sends requests to its nodes: its own, or on Amazon EKS the gateway."""
    eks = fleet.parts.eks
    return fleet.profile.runs_model_servers or (eks is not None and eks.gateway is not None)


def _is_public(fleet: PlannedFleet) -> bool:
    spec = fleet.spec
    return isinstance(spec, InferenceFleetSpec) and spec.load_balancer.internet_facing


def _check_balancers_of_new(network: NewNetwork, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    faults: list[Fault] = []
    for fleet in fleets:
        if _is_public(fleet):
            finding = PUBLIC_SUBNETS.finding(
                cause="a network made here has no two public subnets",
                got="internet_facing: true",
                allowed="an internal load balancer, or an existing network with public_subnets",
                fix="remove internet_facing, or give vpc_id, subnet_ids and public_subnets in network:",
            )
            faults += faults_at((*fleet.key, "load_balancer", "internet_facing"), [finding])
        if not fleet.is_in_service_subnets and fleet.zones:
            faults += _check_reserved(network, fleet.zones)
    return faults + _check_service_budget(network, fleets)


def _check_reserved(network: NewNetwork, zones: Sequence[str]) -> list[Fault]:
    """Find reserved capacity that no load balancer made here would be sure to reach."""
    named = network.control_availability_zones
    if named is not None:
        key = ("network", "control_availability_zones")
        fix = f"add {zones[0]}, or write the zones as availability_zone is written"
        return faults_at(key, [replace(one, fix=fix) for one in check_zones_of_nodes(zones, named)])
    found = check_zones_of_nodes(zones, ["the first two zones that CloudFormation lists"])
    fix = f"write control_availability_zones: two zones or more, {zones[0]} among them"
    cause = "the nodes are in the zone of their reserved capacity, and the load balancer perhaps not"
    return faults_at(("network",), [replace(one, cause=cause, fix=fix) for one in found], at_key=True)


def _check_balancers_of_existing(network: ExistingNetwork, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    faults: list[Fault] = []
    for fleet in fleets:
        name = "public_subnets" if _is_public(fleet) else "service_subnets"
        if _FACING in fleet.broken or "load_balancer" in fleet.broken:
            continue
        subnets = network.public_subnets if _is_public(fleet) else network.service_subnets
        fix = f"give {name} one subnet in each of two zones, {network.availability_zone} among them"
        few = [replace(one, fix=fix) for one in check_balancer_zones(len(subnets))]
        faults += faults_at(("network", name), few)
        if few:
            continue
        faults += _check_nodes(network, fleet, name, subnets)
    return list(dict.fromkeys(faults))


def _check_nodes(network: ExistingNetwork, fleet: PlannedFleet, name: str, balancer: dict[str, str]) -> list[Fault]:
    if fleet.is_in_service_subnets and not network.service_subnets and "capacity" not in fleet.broken:
        finding = SERVICE_SUBNETS.finding(
            cause="nodes whose capacity is not reserved are in service_subnets, and there are none",
            got="no service_subnets",
            allowed="private subnets in the zones of public_subnets",
            fix="add service_subnets",
        )
        return faults_at(("network",), [finding], at_key=True)
    fix = f"add the zone to {name}, written in the same way"
    found = [replace(one, fix=fix) for one in check_zones_of_nodes(fleet.zones, balancer)]
    return faults_at(("network", name), found)


def _check_service_budget(network: NewNetwork, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find load-balancer subnets without room: nodes are spread evenly, and each load balancer is in every one."""
    zones, prefix = network.control_zones, network.fleet_subnet_prefix
    if not fleets or errors_in(check_subnets(network.cidr, fleet_subnet_prefix=prefix, control_zones=zones)):
        return []
    plan = plan_subnets(network.cidr, fleet_subnet_prefix=prefix, control_zones=zones)
    subnet = plan.load_balancer[zones[0]].cidr(IPv4Network(network.cidr))
    demands = [
        IpDemand(
            nodes=ceil((fleet.node_count or 0) / len(zones)),
            addresses_per_node=fleet.plan.addresses_per_node,
            other=LOAD_BALANCER_ADDRESSES,
            name=fleet.name,
        )
        for fleet in fleets
        if fleet.plan.interfaces_or_none is not None and fleet.is_in_service_subnets and "capacity" not in fleet.broken
    ]
    balancers = sum(LOAD_BALANCER_ADDRESSES for fleet in fleets if not fleet.is_in_service_subnets)
    demands += [IpDemand(nodes=0, addresses_per_node=0, other=balancers)] if balancers else []
    findings = [
        replace(
            finding,
            cause=f"in each load-balancer subnet, {finding.cause}",
            fix="give the VPC a larger cidr, use fewer nodes, or an existing network with service_subnets",
        )
        for finding in check_ip_budget(subnet, demands)
    ]
    return faults_at(("network", "cidr"), findings)


# Region and zones: their form, that they belong together, and that they offer the fleets' types.


def check_region(region: str) -> list[Fault]:
    """Find a Region that the catalogue does not have: misspelt, or too new for the facts that synthesis needs."""
    try:
        look_up(region)
    except ConfigError as fault:
        return faults_at(("region",), fault.findings)
    return []


def check_zones(
    network: NewNetwork | ExistingNetwork,
    region: str | None,
    fleets: Sequence[PlannedFleet],
    *,
    wrong_region: str | None = None,
) -> list[Fault]:
    """Find zones that are misspelt or of another Region, and types that are not sold in the zone of their fleet.

    Args:
        wrong_region: The Region in the file, if there is no such Region.
    """
    faults: list[Fault] = []
    wrong: set[str] = set()
    for key, zone, at_key in _named(network):
        if wrong_region is not None and zone.startswith(wrong_region):
            wrong.add(zone)
            continue
        findings = check_zone(region, zone)
        if errors_in(findings):
            wrong.add(zone)
        faults += faults_at(key, findings, at_key=at_key)
    return faults + [fault for fleet in fleets for fault in _check_type(fleet, region, wrong)]


def _named(network: NewNetwork | ExistingNetwork) -> Iterator[tuple[Key, str, bool]]:
    """Every zone that the file names, with its place, and whether it is a key there."""
    yield ("network", "availability_zone"), network.availability_zone, False
    if isinstance(network, NewNetwork):
        for index, zone in enumerate(network.control_availability_zones or ()):
            yield ("network", "control_availability_zones", index), zone, False
        return
    for name in ("service_subnets", "public_subnets"):
        for zone in getattr(network, name):
            yield ("network", name, zone), zone, True


def _check_type(fleet: PlannedFleet, region: str | None, wrong: set[str]) -> list[Fault]:
    """Ask for each zone of the fleet; where only the deployment knows them, for the entire Region."""
    if fleet.is_place_unknown:
        return []
    zones = fleet.zones or (() if region is None else (f"{region}a",))
    findings = [
        finding
        for zone in zones
        if zone not in wrong
        for finding in check_zone(region, zone, fleet.plan.instance_type)
        if finding not in check_zone(region, zone)
    ]
    return faults_at((*fleet.key, "instance_type"), dict.fromkeys(findings))
