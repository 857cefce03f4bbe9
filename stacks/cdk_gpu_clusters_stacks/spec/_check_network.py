"""Network checks: division of a new VPC, subnets of an existing one, addresses for all nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any

from cdk_gpu_clusters.errors import Finding, errors_in
from cdk_gpu_clusters.network.subnets import check_subnets, plan_subnets
from cdk_gpu_clusters.rules.fabric import check_efa_group
from cdk_gpu_clusters.rules.fleet import check_public_subnet
from cdk_gpu_clusters.rules.ip_budget import IpDemand, check_ip_budget
from cdk_gpu_clusters.rules.lustre import check_lustre

from ._fault import Fault, faults_at, under
from ._fleet_view import FleetView
from ._parts import SpecParts
from ._rules import SUBNET_RANGE, SUBNET_TWICE
from .data import LustreSpec
from .network import ExistingNetwork, NewNetwork

_NETWORK = ("network",)


def check_network(parts: SpecParts, fleets: Sequence[FleetView]) -> list[Fault]:
    """Find what is wrong with the network, by itself and for the fleets that run in its fleet subnet.

    Args:
        parts: The file's sound parts: the network, and file systems, which take addresses too.
        fleets: Fleets whose instance type is known.
    """
    network = parts.network
    here = [fleet for fleet in fleets if not fleet.is_in_service_subnets and "capacity" not in fleet.broken]
    if isinstance(network, NewNetwork):
        return _check_new(network, here, _file_systems(parts))
    if isinstance(network, ExistingNetwork):
        return _check_existing(network, here, _file_systems(parts))
    return []


def _check_new(network: NewNetwork, fleets: Sequence[FleetView], others: Sequence[IpDemand]) -> list[Fault]:
    prefix = network.fleet_subnet_prefix
    findings = check_subnets(network.cidr, fleet_subnet_prefix=prefix, control_zones=network.control_zones)
    faults = [fault for finding in findings for fault in _at_zone(network, finding)]
    if errors_in(findings):
        return faults
    plan = plan_subnets(network.cidr, fleet_subnet_prefix=prefix, control_zones=network.control_zones)
    subnet = plan.fleet.cidr(IPv4Network(network.cidr))
    where = "cidr" if prefix is None else "fleet_subnet_prefix"
    return faults + faults_at((*_NETWORK, where), _check_budget(subnet, fleets, others))


def _at_zone(network: NewNetwork, finding: Finding) -> list[Fault]:
    """Place a finding about one of the control zones at it, any other at the key that it names."""
    zones, word = network.control_availability_zones or (), finding.got.rpartition(" ")[2]
    if finding.path != "control_availability_zones" or word not in zones or len(zones) < 2:
        return under(_NETWORK, [finding])
    last = len(zones) - 1 - zones[::-1].index(word)
    return faults_at((*_NETWORK, finding.path, last), [finding])


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
                finding = SUBNET_TWICE.finding(
                    cause="the subnet is named before", got=subnet, fix="remove one of them"
                )
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
            addresses_per_node=fleet.addresses_per_node,
            name=fleet.name,
        )
        for fleet in fleets
        if fleet.plan is not None and not fleet.broken & {"nodes", "max_nodes", "interface_policy", "efa"}
    ]
    return check_ip_budget(subnet, [*demands, *others])
