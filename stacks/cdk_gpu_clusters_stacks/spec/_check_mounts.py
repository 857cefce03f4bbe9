"""Checks of the stores that fleets name: that they are there, and that the nodes can mount them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.node.storage import LustreMount, ScratchSettings, check_storage
from cdk_gpu_clusters.rules.images import choose_image
from cdk_gpu_clusters.rules.lustre_clients import CLIENT_TYPE, check_lustre_client
from cdk_gpu_clusters.rules.zones import is_zone_id

from ._check_fleet import FleetView
from ._document import Key
from ._fault import Fault, faults_at
from ._parts import SpecParts
from ._rules import STORE
from .data import CheckpointsSpec, ExistingCheckpointsSpec, ExistingLustreSpec, LustreSpec
from .fleet import FleetSpec
from .image import ImageByOs


def check_fleet_stores(key: Key, spec: FleetSpec, parts: SpecParts, broken: frozenset[str]) -> list[Fault]:
    """Find names of stores that are not there, or of another kind."""
    stores = parts.stores
    faults: list[Fault] = []
    if stores is None:
        return faults
    if "mounts" not in broken:
        for point, name in spec.mounts.items():
            found = _check_name(name, stores, (LustreSpec, ExistingLustreSpec), "lustre")
            faults += faults_at((*key, "mounts", point), found)
    if "checkpoints" not in broken and spec.checkpoints is not None:
        kinds = (CheckpointsSpec, ExistingCheckpointsSpec)
        found = _check_name(spec.checkpoints, stores, kinds, "checkpoints")
        faults += faults_at((*key, "checkpoints"), found)
    return faults


def check_mounts(view: FleetView, parts: SpecParts) -> list[Fault]:
    """Find mount points that cannot be, and file systems that the nodes cannot mount."""
    if "mounts" in view.broken or not view.spec.mounts:
        return []
    key = (*view.key, "mounts")
    faults: list[Fault] = []
    scratch = ScratchSettings(disk_count=1) if view.type.local_disks else None
    mounts = [LustreMount(mount_point=point, dns_name="d", mount_name="m") for point in view.spec.mounts]
    for finding in check_storage(mounts, scratch):
        point = finding.path.removeprefix("mounts[").removesuffix("]")
        fix = finding.fix or "write a directory such as /fsx"
        where = (*key, point) if point in view.spec.mounts else key
        faults += faults_at(where, [replace(finding, path="", fix=fix)], at_key=True)
    for point, name in view.spec.mounts.items():
        faults += faults_at((*key, point), _check_client(view, (parts.stores or {}).get(name), parts))
    return faults


def _check_client(view: FleetView, store: Any, parts: SpecParts) -> list[Finding]:
    version: str | None
    zone: str | None
    if isinstance(store, LustreSpec):
        version, zone, efa = store.lustre.lustre_version, None, store.lustre.efa
    elif isinstance(store, ExistingLustreSpec):
        options = store.existing_lustre
        version, zone, efa = options.lustre_version, options.availability_zone, options.efa
    else:
        return []
    here = parts.network.availability_zone if parts.network else None
    comparable = here is not None and zone is not None and is_zone_id(here) == is_zone_id(zone)
    system, kernel = _system(view)
    findings = check_lustre_client(
        operating_system=system,
        kernel=kernel,
        version=version,
        instance_type=view.type,
        node_count=view.node_count,
        zones=[here] if comparable and here is not None else (),
        file_system_zone=zone,
        efa=efa and view.uses_efa,
    )
    fix = "let this fleet mount a store without efa, or choose another type"
    return [replace(one, fix=fix) if one.id == CLIENT_TYPE.id else one for one in findings]


def _system(view: FleetView) -> tuple[str | None, str | None]:
    """Operating system and kernel of the nodes, as far as they are known."""
    if "image" in view.broken:
        return None, None
    image = view.spec.image
    if image is not None and not isinstance(image, ImageByOs):
        return image.os, None
    try:
        row = choose_image(view.type, operating_system=image.os if image else None)
    except ConfigError:
        return None, None
    return row.operating_system, row.versions.get("kernel")


def _check_name(
    name: str, stores: Mapping[str, Any], kinds: tuple[type[Any], ...], word: str
) -> list[Finding]:
    """Find a name that no store of these kinds has; one with a fault of its own may be of any kind."""
    if name in stores and (stores[name] is None or isinstance(stores[name], kinds)):
        return []
    fitting = sorted(other for other, store in stores.items() if isinstance(store, kinds))
    return [
        STORE.finding(
            cause=f"this store is not one of {word}"
            if name in stores
            else "there is no store of this name in data",
            got=name,
            allowed=", ".join(fitting) or "none: data holds no such store",
            fix=f"write {' or '.join(fitting)}" if fitting else f"add data: {{ {name}: {{ {word}: … }} }}",
        )
    ]
