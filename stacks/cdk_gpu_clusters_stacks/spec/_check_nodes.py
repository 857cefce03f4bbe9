"""Checks of the nodes of a fleet: number, volume, image, MIG, mounts, alarms; then what only training fleets have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.plan import Topic
from cdk_gpu_clusters.node.storage import LustreMount, check_storage
from cdk_gpu_clusters.rules.fleet import (
    DEFAULT_IOPS,
    DEFAULT_SIZE_GIB,
    DEFAULT_THROUGHPUT_MIB_PER_S,
    check_alarms,
    check_emails,
    check_root_volume,
)
from cdk_gpu_clusters.rules.images import check_image
from cdk_gpu_clusters.rules.lustre_clients import CLIENT_TYPE, check_lustre_client
from cdk_gpu_clusters.rules.mig import LAYOUT_COUNT, WITH_EFA
from cdk_gpu_clusters.rules.node_group import choose_ami_type
from cdk_gpu_clusters.rules.zones import is_zone_id

from ._check_user_data import check_environment, check_script
from ._check_values import check_arn, check_store_name
from ._document import Fault, Key, faults_at
from ._parts import SpecParts
from ._rules import NODE_COUNT, SILENT_ALARMS
from .data import CheckpointsSpec, ExistingCheckpointsSpec, ExistingLustreSpec, LustreSpec
from .fleet import FleetSpec, NodesSpec
from .inference import InferenceFleetSpec
from .planned_fleet import PlannedFleet

# Number of nodes, and their root volume.


def check_number(key: Key, spec: NodesSpec) -> list[Fault]:
    """Find a number of nodes that is missing, given twice, or no range."""
    both = spec.nodes is not None and (spec.min_nodes is not None or spec.max_nodes is not None)
    if both or (spec.nodes is None and None in (spec.min_nodes, spec.max_nodes)):
        given = [name for name in ("nodes", "min_nodes", "max_nodes") if getattr(spec, name) is not None]
        cause = "both a number of nodes and a range" if both else "no number of nodes"
        finding = NODE_COUNT.finding(
            cause=cause,
            got=" and ".join(given) or "none of them",
            allowed="nodes, or min_nodes and max_nodes",
            fix="keep one of the two" if both else "add nodes, or both min_nodes and max_nodes",
        )
        return faults_at(key, [finding], at_key=True)
    if spec.minimum_nodes > spec.maximum_nodes:
        finding = NODE_COUNT.finding(
            cause="more nodes at least than at most",
            got=f"{spec.min_nodes} to {spec.max_nodes}",
            allowed=f"at most {spec.max_nodes}",
            fix="exchange min_nodes and max_nodes",
        )
        return faults_at((*key, "min_nodes"), [finding])
    return []


def check_volume(key: Key, spec: NodesSpec) -> list[Fault]:
    """Find a root volume that EC2 refuses."""
    volume = spec.root_volume
    findings = check_root_volume(
        size_gib=volume.size_gib or DEFAULT_SIZE_GIB,
        iops=volume.iops or DEFAULT_IOPS,
        throughput_mib_per_s=volume.throughput_mib_per_s or DEFAULT_THROUGHPUT_MIB_PER_S,
    )
    return [
        fault
        for finding in findings
        for fault in faults_at((*key, "root_volume", finding.path), [replace(finding, path="")])
    ]


# Machine image and MIG layout.

_LIST_FIX = (
    "write one text for all GPUs, its profiles separated by commas, or a list with a text for each GPU; "
    "off leaves a GPU unsplit"
)
_EFA_ALLOWED = "mig with efa: false, or EFA with GPUs that are not split"
_EFA_FIX = "write efa: false if the nodes serve or share GPUs; remove mig if they train together"
_INDEX = re.compile(r"mig\[(\d+)\]")


def check_machine_image(fleet: PlannedFleet) -> list[Fault]:
    """Find a type that the image does not suit; the contents of your own image are unknown."""
    if fleet.on_eks:
        return faults_at((*fleet.key, "instance_type"), choose_ami_type(fleet.type)[1])
    key = (*fleet.key, "image", "os") if fleet.spec.image else (*fleet.key, "instance_type")
    row = fleet.plan.image
    findings = [] if row is None else check_image(fleet.type, row)
    return faults_at(key, [*fleet.plan.about(Topic.IMAGE), *findings])


def check_mig(fleet: PlannedFleet) -> list[Fault]:
    """Find a MIG layout that the GPUs, the image or the network interfaces of the nodes do not allow."""
    return mig_faults(fleet, fleet.plan.about(Topic.MIG, Topic.MIG_WITH_EFA, Topic.DRIVER))


def mig_faults(view: PlannedFleet, findings: Iterable[Finding]) -> list[Fault]:
    """Place findings at the text of the layout that each is about."""
    faults: list[Fault] = []
    for finding in findings:
        index = _INDEX.fullmatch(finding.path)
        key: Key = (*view.key, "mig", int(index[1])) if index else (*view.key, "mig")
        faults += faults_at(key, [replace(_in_words_of_the_file(finding), path="")])
    return faults


def _in_words_of_the_file(finding: Finding) -> Finding:
    if finding.id == LAYOUT_COUNT.id:
        return replace(finding, fix=_LIST_FIX)
    if finding.id == WITH_EFA.id:
        return replace(finding, allowed=_EFA_ALLOWED, fix=_EFA_FIX)
    return finding


# Mounts: names of stores, mount points, and clients of file systems.


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


def check_mounts(view: PlannedFleet, parts: SpecParts) -> list[Fault]:
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


def _check_client(view: PlannedFleet, store: Any, parts: SpecParts) -> list[Finding]:
    version: str | None
    zone = parts.network.availability_zone if parts.network else None
    if isinstance(store, LustreSpec):
        version, efa = store.lustre.lustre_version, store.lustre.efa
    elif isinstance(store, ExistingLustreSpec):
        options = store.existing_lustre
        version, zone, efa = options.lustre_version, options.availability_zone, options.efa
    else:
        return []
    findings = check_lustre_client(
        operating_system=view.plan.operating_system,
        kernel=view.plan.kernel,
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


# Alarms.

# As `GpuFleet` has it.
_READY_SECONDS = 30 * 60


def check_alarms_of(key: Key, spec: NodesSpec, region: str | None) -> list[Fault]:
    """Find numbers that AWS refuses, recipients without an address, and recipients of alarms that are off.

    Args:
        key: The place of the fleet in the file.
        spec: The fleet.
        region: Region of the cluster, if it is valid.
    """
    alarms, here = spec.alarms, (*key, "alarms")
    faults: list[Fault] = []
    ready, more = _READY_SECONDS, ""
    if isinstance(spec, InferenceFleetSpec):
        ready, more = spec.ready_timeout_seconds or ready, ", or raise ready_timeout_seconds"
    if alarms.settings is not None:
        for finding in check_alarms(alarms.settings, ready_timeout_seconds=ready):
            name = finding.path.rpartition(".")[2]
            faults += faults_at((*here, name), [replace(finding, fix=f"lower {name}{more}", path="")])
    elif alarms.tells:
        finding = SILENT_ALARMS.finding(
            cause="alarms that do not exist have no recipients",
            got="enabled: false with topic_arn or emails",
            allowed="one of the two",
            fix="remove enabled, or topic_arn and emails",
        )
        faults += faults_at((*here, "enabled"), [finding])
    if alarms.topic_arn is not None and region is not None:
        faults += check_arn((*here, "topic_arn"), alarms.topic_arn, region, "topic")
    if alarms.emails:
        for finding in check_emails(alarms.emails):
            index = int(finding.path.rpartition("[")[2].rstrip("]"))
            faults += faults_at((*here, "emails", index), [replace(finding, path="")])
    return faults


# What only training fleets have: EFA, interfaces, checkpoints, environment and script.

_BUCKETS = (CheckpointsSpec, ExistingCheckpointsSpec)


def check_training_values(key: Key, spec: FleetSpec, broken: frozenset[str], parts: SpecParts) -> list[Fault]:
    """Find what is wrong with a training fleet of whatever type."""
    faults: list[Fault] = []
    if "environment" not in broken:
        faults += check_environment((*key, "environment"), spec.environment)
    if "user_data" not in broken:
        faults += check_script(key, spec)
    if spec.checkpoints is not None and parts.stores is not None:
        found = check_store_name(spec.checkpoints, parts.stores, _BUCKETS, "checkpoints")
        faults += faults_at((*key, "checkpoints"), found)
    return faults


def check_training_nodes(fleet: PlannedFleet) -> list[Fault]:
    """Find what is wrong with a training fleet of its type."""
    return [
        *faults_at((*fleet.key, "efa"), fleet.plan.about(Topic.EFA)),
        *faults_at((*fleet.key, "interface_policy"), fleet.plan.about(Topic.INTERFACES)),
    ]
