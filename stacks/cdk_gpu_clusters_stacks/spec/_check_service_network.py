"""Checks of the subnets in which load balancers, and inference nodes without reserved capacity, stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from math import ceil

from cdk_gpu_clusters.errors import errors_in
from cdk_gpu_clusters.network.subnets import check_subnets, plan_subnets
from cdk_gpu_clusters.rules.inference import (
    LOAD_BALANCER_ADDRESSES,
    check_balancer_zones,
    check_zones_of_nodes,
)
from cdk_gpu_clusters.rules.ip_budget import IpDemand, check_ip_budget

from ._fault import Fault, faults_at
from ._fleet_view import FleetView
from ._rules import PUBLIC_SUBNETS, SERVICE_SUBNETS
from .inference import InferenceFleetSpec
from .network import ExistingNetwork, NewNetwork

_FACING = "load_balancer.internet_facing"


def check_service_network(network: NewNetwork | ExistingNetwork, fleets: Sequence[FleetView]) -> list[Fault]:
    """Find load balancers without subnets for them, and nodes that they could not reach.

    Args:
        network: The network.
        fleets: Fleets whose instance type is known.
    """
    serving = [fleet for fleet in fleets if isinstance(fleet.spec, InferenceFleetSpec)]
    if isinstance(network, NewNetwork):
        return _check_new(network, serving)
    return _check_existing(network, serving)


def _is_public(fleet: FleetView) -> bool:
    spec = fleet.spec
    return isinstance(spec, InferenceFleetSpec) and spec.load_balancer.internet_facing


def _check_new(network: NewNetwork, fleets: Sequence[FleetView]) -> list[Fault]:
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
    return faults + _check_budget(network, fleets)


def _check_reserved(network: NewNetwork, zones: Sequence[str]) -> list[Fault]:
    """Find reserved capacity that no load balancer made here would be sure to reach."""
    named = network.control_availability_zones
    if named is not None:
        key = ("network", "control_availability_zones")
        fix = f"add {zones[0]}, or write the zones as availability_zone is written"
        return faults_at(key, [replace(one, fix=fix) for one in check_zones_of_nodes(zones, named)])
    found = check_zones_of_nodes(zones, ["the first two zones that CloudFormation lists"])
    fix = f"write control_availability_zones: two zones or more, {zones[0]} among them"
    cause = "the nodes stand in the zone of their reserved capacity, and the load balancer perhaps not"
    return faults_at(("network",), [replace(one, cause=cause, fix=fix) for one in found], at_key=True)


def _check_existing(network: ExistingNetwork, fleets: Sequence[FleetView]) -> list[Fault]:
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


def _check_nodes(
    network: ExistingNetwork, fleet: FleetView, name: str, balancer: dict[str, str]
) -> list[Fault]:
    if fleet.is_in_service_subnets and not network.service_subnets and "capacity" not in fleet.broken:
        finding = SERVICE_SUBNETS.finding(
            cause="nodes whose capacity is not reserved stand in service_subnets, and there are none",
            got="no service_subnets",
            allowed="private subnets in the zones of public_subnets",
            fix="add service_subnets",
        )
        return faults_at(("network",), [finding], at_key=True)
    fix = f"add the zone to {name}, written alike"
    found = [replace(one, fix=fix) for one in check_zones_of_nodes(fleet.zones, balancer)]
    return faults_at(("network", name), found)


def _check_budget(network: NewNetwork, fleets: Sequence[FleetView]) -> list[Fault]:
    """Find load-balancer subnets without room: nodes are spread evenly, and each load balancer is in every one."""
    zones, prefix = network.control_zones, network.fleet_subnet_prefix
    if not fleets or errors_in(check_subnets(network.cidr, fleet_subnet_prefix=prefix, control_zones=zones)):
        return []
    plan = plan_subnets(network.cidr, fleet_subnet_prefix=prefix, control_zones=zones)
    subnet = plan.load_balancer[zones[0]].cidr(IPv4Network(network.cidr))
    demands = [
        IpDemand(
            nodes=ceil((fleet.node_count or 0) / len(zones)),
            addresses_per_node=fleet.addresses_per_node,
            other=LOAD_BALANCER_ADDRESSES,
            name=fleet.name,
        )
        for fleet in fleets
        if fleet.plan is not None and fleet.is_in_service_subnets and "capacity" not in fleet.broken
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
