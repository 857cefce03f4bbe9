"""Checks of Region and zones: their form, that they belong together, and that they sell the fleets' types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdk_gpu_clusters.catalogue.regions import region as look_up
from cdk_gpu_clusters.errors import ConfigError, errors_in
from cdk_gpu_clusters.rules.zones import check_zone

from ._document import Key
from ._fault import Fault, faults_at
from ._fleet_view import FleetView
from .network import ExistingNetwork, NewNetwork


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
    fleets: Sequence[FleetView],
    *,
    wrong_region: str | None = None,
) -> list[Fault]:
    """Find zones that are misspelt or of another Region, and types that are not sold where their fleet stands.

    Args:
        network: The network.
        region: Region of the cluster, if it is sound.
        fleets: Fleets whose instance type is known.
        wrong_region: What stands for the Region in the file, if there is no such Region.
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


def _check_type(fleet: FleetView, region: str | None, wrong: set[str]) -> list[Fault]:
    """Ask for each zone of the fleet; where only the deployment knows them, for the Region as a whole."""
    if fleet.place_is_unsound:
        return []
    zones = fleet.zones or (() if region is None else (f"{region}a",))
    findings = [
        finding
        for zone in zones
        if zone not in wrong
        for finding in check_zone(region, zone, fleet.type)
        if finding not in check_zone(region, zone)
    ]
    return faults_at((*fleet.key, "instance_type"), dict.fromkeys(findings))
