"""Checks of what a fleet's nodes mount: names of stores, mount points, and clients of file systems."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.node.storage import LustreMount, check_storage
from cdk_gpu_clusters.rules.lustre_clients import CLIENT_TYPE, check_lustre_client
from cdk_gpu_clusters.rules.zones import is_zone_id

from ._document import Key
from ._fault import Fault, faults_at
from ._fleet_view import FleetView
from ._parts import SpecParts
from ._stores import check_store_name
from .data import ExistingLustreSpec, LustreSpec
from .image import ImageByOs
from .nodes import NodesSpec


def check_mounted_stores(key: Key, spec: NodesSpec, parts: SpecParts) -> list[Fault]:
    """Find names of stores that are not there, or are no file systems."""
    if parts.stores is None:
        return []
    return [
        fault
        for point, name in spec.mounts.items()
        for fault in faults_at(
            (*key, "mounts", point),
            check_store_name(name, parts.stores, (LustreSpec, ExistingLustreSpec), "lustre"),
        )
    ]


def check_mounts(view: FleetView, parts: SpecParts) -> list[Fault]:
    """Find mount points that cannot be, and file systems that the nodes cannot mount."""
    if not view.spec.mounts:
        return []
    key = (*view.key, "mounts")
    faults: list[Fault] = []
    mounts = [LustreMount(mount_point=point, dns_name="d", mount_name="m") for point in view.spec.mounts]
    for finding in check_storage(mounts, view.scratch):
        point = finding.path.removeprefix("mounts[").removesuffix("]")
        fix = finding.fix or "write a directory such as /fsx"
        where = (*key, point) if point in view.spec.mounts else key
        faults += faults_at(where, [replace(finding, path="", fix=fix)], at_key=True)
    for point, name in view.spec.mounts.items():
        faults += faults_at((*key, point), _check_client(view, (parts.stores or {}).get(name), parts))
    return faults


def _check_client(view: FleetView, store: Any, parts: SpecParts) -> list[Finding]:
    version: str | None
    zone = parts.network.availability_zone if parts.network else None
    if isinstance(store, LustreSpec):
        version, efa = store.lustre.lustre_version, store.lustre.efa
    elif isinstance(store, ExistingLustreSpec):
        options = store.existing_lustre
        version, zone, efa = options.lustre_version, options.availability_zone, options.efa
    else:
        return []
    system, kernel = _system(view)
    findings = check_lustre_client(
        operating_system=system,
        kernel=kernel,
        version=version,
        instance_type=view.type,
        node_count=view.node_count,
        # A name and an id cannot be compared: which is which differs between accounts.
        zones=[one for one in view.zones if zone is not None and is_zone_id(one) == is_zone_id(zone)],
        file_system_zone=zone,
        efa=efa and view.uses_efa,
    )
    fix = "let this fleet mount a store without efa, or choose another type"
    return [replace(one, fix=fix) if one.id == CLIENT_TYPE.id else one for one in findings]


def _system(view: FleetView) -> tuple[str | None, str | None]:
    """Operating system and kernel of the nodes, as far as they are known."""
    image = view.spec.image
    if image is not None and not isinstance(image, ImageByOs):
        return image.os, None
    row = view.image_row
    return (None, None) if row is None else (row.operating_system, row.versions.get("kernel"))
