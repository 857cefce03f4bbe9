"""The rules about clusters, asked of a cluster file: every fault at once, each at its key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.rules.fabric import check_fabric

from ._check_data import check_stores
from ._check_eks import check_eks
from ._check_fleet import check_fleet_nodes, check_fleet_values
from ._check_network import check_network
from ._check_service_network import check_service_network
from ._check_tags import check_tags
from ._check_zones import check_region, check_zones
from ._document import dotted
from ._fault import Fault, faults_at
from ._fleet_view import FleetView
from ._parts import FleetPart, SpecParts, parts_of
from ._rules import FLEET_NAME, FLEETS
from .model import ClusterSpec


def check_cluster(spec: ClusterSpec) -> list[Finding]:
    """Find everything that the rules say about a cluster, errors and warnings.

    Args:
        spec: The cluster, from a file or made in Python.

    Returns:
        Findings whose paths are dotted keys, such as `training.fleets.trainers.capacity`.
    """
    return [replace(fault.finding, path=dotted(fault.key)) for fault in faults_of(parts_of(spec))]


def faults_of(parts: SpecParts) -> list[Fault]:
    """Find everything that the rules say about the sound parts of a cluster file."""
    views: list[FleetView] = []
    faults = check_tags(("tags",), parts.tags) + _check_fleets(parts)
    about_region = check_region(parts.region) if parts.region is not None else []
    faults += about_region
    wrong_region = parts.region if about_region else None
    if about_region:  # a wrong Region makes no zone or type wrong
        parts = replace(parts, region=None)
    for part in parts.fleets:
        faults += check_fleet_values(part, parts)
        try:
            view = FleetView.of(part, parts)
        except ConfigError as fault:
            faults += faults_at((*part.key, "instance_type"), fault.findings)
        else:
            views.append(view)
            faults += check_fleet_nodes(view, parts)
    faults += check_stores(parts) + check_network(parts, views) + check_eks(parts)
    if parts.network is not None:
        faults += check_zones(parts.network, parts.region, views, wrong_region=wrong_region)
        faults += check_service_network(parts.network, views)
    return faults + _check_fabrics(views)


def _check_fleets(parts: SpecParts) -> list[Fault]:
    """Find a file without fleets, and fleets of one name."""
    if not parts.names_fleets:
        finding = FLEETS.finding(
            cause="the cluster has no fleet",
            got="nothing",
            allowed="a fleet in training.fleets or in inference.fleets",
            fix="add training: or inference:, with a fleet in it",
        )
        return [Fault(("training", "fleets"), finding)]
    return [
        fault for index, part in enumerate(parts.fleets) for fault in _check_name(part, parts.fleets[:index])
    ]


def _check_name(part: FleetPart, before: Iterable[FleetPart]) -> list[Fault]:
    name = part.key[-1]
    if name not in [other.key[-1] for other in before]:
        return []
    finding = FLEET_NAME.finding(
        cause="a fleet in training has this name, too", got=str(name), fix="rename one of them"
    )
    return faults_at(part.key, [finding], at_key=True)


def _check_fabrics(views: Sequence[FleetView]) -> list[Fault]:
    """Fleets that share an EFA fabric can exchange EFA traffic; the fault stands at the first that cannot."""
    faults: list[Fault] = []
    fabrics: dict[str, list[FleetView]] = {}
    for view in views:
        fabric = getattr(view.spec, "fabric", None)
        if fabric is not None and view.uses_efa and not view.broken & {"fabric", "efa"}:
            fabrics.setdefault(fabric, []).append(view)
    for fabric, members in fabrics.items():
        findings = check_fabric([member.type for member in members])
        names = ", ".join(member.name for member in members)
        fix = "give one of the fleets another fabric: key, such as fabric: " + members[-1].name
        findings = [
            replace(finding, cause=f"fleets {names} share the fabric {fabric}, but {finding.cause}", fix=fix)
            for finding in findings
        ]
        faults += faults_at((*members[-1].key, "instance_type"), findings)
    return faults
