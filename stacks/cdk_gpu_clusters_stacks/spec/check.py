"""The rules about clusters, asked of a cluster file: every fault at once, each at its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.rules.fabric import check_fabric

from ._check_data import check_stores
from ._check_fleet import FleetView, check_fleet
from ._check_fleet_values import check_fleet_values
from ._check_mounts import check_fleet_stores, check_mounts
from ._check_network import check_network, check_region
from ._check_tags import check_tags
from ._document import dotted
from ._fault import Fault, faults_at
from ._parts import FleetPart, SpecParts, parts_of
from .model import ClusterSpec

_FLEETS = ("training", "fleets")


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
    views = {}
    faults = check_tags(("tags",), parts.tags)
    about_region = check_region(parts.region) if parts.region is not None else []
    faults += about_region
    wrong_region = parts.region if about_region else None
    if about_region:  # a wrong Region makes no zone or type wrong
        parts = replace(parts, region=None)
    for name, part in parts.fleets.items():
        view, found = _view(name, part, parts)
        faults += found
        if view is not None:
            views[name] = view
            faults += check_fleet(view) + check_mounts(view, parts)
    faults += check_stores(parts)
    if parts.network is not None:
        faults += check_network(parts, list(views.values()), wrong_region=wrong_region)
    return faults + _check_fabrics(views)


def _view(name: str, part: FleetPart, parts: SpecParts) -> tuple[FleetView | None, list[Fault]]:
    """The fleet with its instance type's record, if there is one, and the faults that do not depend on it."""
    key = (*_FLEETS, name)
    faults = check_tags((*key, "tags"), part.spec.tags, above=parts.tags) + check_fleet_values(key, part)
    faults += check_fleet_stores(key, part.spec, parts, part.broken)
    try:
        view = FleetView.of(key, part, parts)
    except ConfigError as fault:
        return None, faults + faults_at((*key, "instance_type"), fault.findings)
    return view, faults


def _check_fabrics(views: Mapping[str, FleetView]) -> list[Fault]:
    """Fleets that share an EFA fabric can exchange EFA traffic; the fault stands at the first that cannot."""
    faults: list[Fault] = []
    fabrics: dict[str, list[FleetView]] = {}
    for view in views.values():
        if view.uses_efa and not view.broken & {"fabric", "efa"}:
            fabrics.setdefault(view.spec.fabric, []).append(view)
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
