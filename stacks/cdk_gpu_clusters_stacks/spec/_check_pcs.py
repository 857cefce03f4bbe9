"""Checks of a Slurm cluster of AWS PCS, and of fleets that join one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.pcs import DEFAULT_SLURM_VERSION, slurm_versions
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity
from cdk_gpu_clusters.fleet.compute_node_group import STATIC_OR_DYNAMIC
from cdk_gpu_clusters.node.slurm_settings import CLUSTER_SETTINGS, cluster_settings
from cdk_gpu_clusters.node.users import check_directory
from cdk_gpu_clusters.rules.pcs import (
    METRICS,
    SETTING,
    SIZE,
    STATIC_MIG,
    SettingsLevel,
    check_pcs_cluster,
    check_queue,
)
from cdk_gpu_clusters.rules.pcs_programs import check_imported_settings
from cdk_gpu_clusters.rules.pcs_versions import check_feature, check_slurm_version
from cdk_gpu_clusters.rules.zones import is_local_zone

from ._base import SpecModel
from ._check_nodes import check_mount_points
from ._document import Fault, faults_at
from ._parts import SpecParts
from ._rules import PCS_EXISTING, PCS_INFERENCE, PCS_LOGIN, PCS_QUEUE, PCS_SECTION
from ._users import users_of
from .data import CheckpointsSpec, ExistingCheckpointsSpec
from .fleet import FleetSpec
from .network import NewNetwork
from .pcs import ExistingPcsSpec, LoginNodesSpec, PcsSpec
from .planned_fleet import PlannedFleet

#: What an existing cluster has of its own.
_OF_A_NEW_CLUSTER = (
    "size",
    "slurm_version",
    "accounting",
    "slurm_settings",
    "rest_api",
    "metrics",
    "scale_down_idle_minutes",
)
#: Paths of `check_pcs_cluster` -> keys of the section.
_KEYS = {
    "purge_after_days": ("accounting", "keep_days"),
    "scale_down_idle_seconds": ("scale_down_idle_minutes",),
}


def check_pcs(parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find what is wrong with the Slurm cluster, and what of the fleets does not go with it."""
    if not parts.profile.joins_slurm:
        return [] if parts.pcs is None else faults_at(("pcs",), [_NOT_ON_PCS], at_key=True)
    faults = [fault for part in parts.fleets if not isinstance(part.spec, FleetSpec) for fault in _no_servers(part.key)]
    if parts.pcs_is_broken:
        return faults
    spec = parts.pcs or PcsSpec()
    faults += _check_settings_of(spec.existing)
    faults += [*_check_login(spec.login, parts), *_check_queues(spec, parts), *_check_users(spec)]
    return faults + (_check_new(spec, parts, fleets) if spec.existing is None else _check_existing(spec, spec.existing))


_NOT_ON_PCS = PCS_SECTION.finding(
    cause="no Slurm cluster is made",
    got="pcs without orchestrator: pcs",
    fix="write orchestrator: pcs, or remove the section",
    severity=Severity.WARNING,
)


def _no_servers(key: tuple[str | int, ...]) -> list[Fault]:
    finding = PCS_INFERENCE.finding(
        cause="model servers are a service, and Slurm runs jobs",
        got=f"the inference fleet {key[-1]}",
        allowed="training fleets",
        fix="put inference fleets into a cluster file of their own, with orchestrator ec2 or eks",
    )
    return faults_at(key, [finding], at_key=True)


def _check_new(spec: PcsSpec, parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find what the construct would refuse, with its place in the file."""
    counts = [fleet.node_count for fleet in fleets]
    nodes = None if None in counts else sum(count or 0 for count in counts) + spec.login.nodes
    minutes, version = spec.scale_down_idle_minutes, spec.slurm_version or DEFAULT_SLURM_VERSION
    findings = check_pcs_cluster(
        size=spec.size.upper(),
        slurm_version=version,
        node_count=nodes,
        subnet_count=1,
        zone=_controller_zone(parts),
        accounting=spec.accounting.enabled,
        purge_after_days=spec.accounting.keep_days,
        rest_api=spec.rest_api,
        scale_down_idle_seconds=None if minutes is None else minutes * 60,
        slurm_settings=cluster_settings(spec.slurm_settings, slurm_version=version),
    )
    if spec.metrics:
        findings += check_feature("metrics", version, path="metrics")
    faults = []
    for finding in findings:
        if finding.path == "subnet":
            faults += faults_at(("network",), [replace(finding, path="", fix=_SERVICE_SUBNETS)])
        else:
            faults += faults_at(("pcs", *_key_in_section(spec, finding)), [_in_words(finding, spec)])
    return faults


def _key_in_section(spec: PcsSpec, finding: Finding) -> tuple[str, ...]:
    """The key that a finding about the cluster is about."""
    if finding.path in spec.slurm_settings or finding.id == METRICS.id:
        name = finding.path if finding.path in spec.slurm_settings else "MetricsType"
        return "slurm_settings", name
    if finding.path in _KEYS:
        return _KEYS[finding.path]
    return (finding.path,) if finding.path in PcsSpec.model_fields else ()


_SERVICE_SUBNETS = "name service_subnets in Availability Zones: the controller is put into the first, beside the nodes"


def _controller_zone(parts: SpecParts) -> str | None:
    """The zone of the controller, as far as it matters: beside a Local Zone it is in a subnet for services."""
    network = parts.network
    if network is None:
        return None
    if not is_local_zone(network.availability_zone):
        return network.availability_zone
    if isinstance(network, NewNetwork):
        return None
    return min(network.service_subnets, default=network.availability_zone)


_VERSION = re.compile(r'slurm_version="([0-9.]+)"')
#: What a setting is given to -> where it is in a cluster file; settings of other levels have no place in one.
_PLACES = {
    SettingsLevel.CLUSTER.value: "pcs.slurm_settings",
    SettingsLevel.NODE_GROUP.value: "pcs.node_settings",
    SettingsLevel.QUEUE.value: "slurm_settings of a queue in pcs.queues",
}


def _in_words(finding: Finding, spec: PcsSpec) -> Finding:
    """The finding as a cluster file has it, not as Python or a template does."""
    newer = r"update the cluster to Slurm \1" if spec.existing else r'write slurm_version: "\1"'
    fix, got, allowed = _VERSION.sub(newer, finding.fix), finding.got, finding.allowed
    if finding.path == "slurm_version":
        fix = f'write slurm_version: "{DEFAULT_SLURM_VERSION}"'
    elif finding.id == SIZE.id and (larger := _LARGER.search(fix)):
        fix = f"write size: {larger[1].lower()}, before you create the cluster"
    elif finding.id == METRICS.id:
        fix = "write metrics: true in place of MetricsType: it sets both"
    elif finding.id == SETTING.id and fix.startswith("give it to the "):
        places = [_PLACES[level] for level in fix.removeprefix("give it to the ").split(" or the ") if level in _PLACES]
        fix = f"move it to {' or '.join(places)}" if places else "remove it: the cluster file has no such settings"
    elif finding.path == "scale_down_idle_seconds":
        got, most = f"{int(got) // 60} minutes", int(allowed.rpartition(" ")[2]) // 60
        allowed, fix = f"1 to {most} minutes", f"give 1 to {most}"
    return replace(finding, path="", got=got, allowed=allowed, fix=fix)


_LARGER = re.compile(r"^choose ([A-Z]+) ")


def _check_existing(spec: PcsSpec, existing: ExistingPcsSpec) -> list[Fault]:
    given = [name for name in _OF_A_NEW_CLUSTER if _is_given(spec, name)]
    finding = PCS_EXISTING.finding(
        cause="an existing cluster is as it is",
        got=", ".join(given),
        allowed="existing, with login and queues or without",
        fix="remove these keys, or remove existing",
    )
    # PCS runs a version for a year after it makes no new cluster of it.
    is_known = existing.slurm_version in slurm_versions()
    about = [] if is_known else check_slurm_version(existing.slurm_version)
    fix = "write the version that aws pcs get-cluster shows"
    return [
        *faults_at(("pcs",), [finding] if given else []),
        *faults_at(("pcs", "existing", "slurm_version"), [replace(one, path="", fix=fix) for one in about]),
    ]


def _check_settings_of(existing: ExistingPcsSpec | None) -> list[Fault]:
    """Find what the settings of an existing cluster lack for the software of its nodes."""
    if existing is None or existing.slurm_settings is None:
        return []
    findings = check_imported_settings(existing.slurm_settings, CLUSTER_SETTINGS)
    return faults_at(("pcs", "existing", "slurm_settings"), findings)


def _is_given(spec: SpecModel, name: str) -> bool:
    """Whether the file differs from the default."""
    return bool(getattr(spec, name) != type(spec).model_fields[name].get_default())


def _check_login(login: LoginNodesSpec, parts: SpecParts) -> Iterator[Fault]:
    key = ("pcs", "login")
    try:
        accelerator = instance_type(login.instance_type).accelerator
    except ConfigError as unknown:
        yield from faults_at((*key, "instance_type"), unknown.findings)
    else:
        if accelerator is not None:
            finding = PCS_LOGIN.finding(
                cause="no one computes on a login node",
                got=f"{login.instance_type}, with {accelerator.count} {accelerator.name}",
                allowed="a type without accelerators",
                fix="write instance_type: m7i.large; fleets hold the GPU nodes",
            )
            yield from faults_at((*key, "instance_type"), [finding])
    yield from check_mount_points((*key, "mounts"), login.mounts, parts.stores or {})
    if parts.stores is None:
        return
    file_systems = [
        name for name, store in parts.stores.items() if not isinstance(store, CheckpointsSpec | ExistingCheckpointsSpec)
    ]
    for point, name in login.mounts.items():
        if name in file_systems:
            continue
        near = get_close_matches(name, file_systems, n=1) or file_systems[:1]
        finding = PCS_LOGIN.finding(
            cause="a bucket is not mounted" if name in parts.stores else "there is no such store",
            got=name,
            allowed=", ".join(file_systems) or "a file system of data",
            fix=f"write {near[0]}" if near else "add a store with openzfs or efs to data",
        )
        yield from faults_at((*key, "mounts", point), [finding])


def _check_users(spec: PcsSpec) -> Iterator[Fault]:
    if spec.users is not None:
        try:
            users_of(spec.users)
        except ConfigError as wrong:
            yield from faults_at(("pcs", "users"), wrong.findings)
    if spec.directory is not None:
        for finding in check_directory(spec.directory.settings, path=""):
            key = ("pcs", "directory", *_own_key(finding.path))
            yield from faults_at(key, [replace(finding, path="")])


def _own_key(path: str) -> tuple[str | int, ...]:
    """The key of a path such as `.uris[1]`."""
    name, _, index = path.strip(".").rstrip("]").partition("[")
    key = "schema_name" if name == "schema" else name
    return (key, int(index)) if index else (key,)


def _check_queues(spec: PcsSpec, parts: SpecParts) -> Iterator[Fault]:
    version = spec.existing.slurm_version if spec.existing else spec.slurm_version or DEFAULT_SLURM_VERSION
    fleets = {part.name: part.key for part in parts.fleets if isinstance(part.spec, FleetSpec)}
    for name in spec.node_settings:
        if name not in fleets:
            yield from faults_at(("pcs", "node_settings", name), [no_fleet(name, fleets)], at_key=True)
    for name, queue in spec.queues.items():
        key = ("pcs", "queues", name)
        for finding in check_queue(name=name, slurm_version=version, slurm_settings=queue.slurm_settings):
            inner = () if finding.path == "name" else ("slurm_settings", finding.path)
            yield from faults_at((*key, *inner), [_in_words(finding, spec)], at_key=not inner)
        for index, fleet in enumerate(queue.fleets):
            if fleet in queue.fleets[:index]:
                yield from faults_at((*key, "fleets", index), [named_twice(fleet)])
            if fleet not in fleets:
                yield from faults_at((*key, "fleets", index), [no_fleet(fleet, fleets)])
    queued = {fleet for queue in spec.queues.values() for fleet in queue.fleets}
    for name, place in fleets.items():
        about = _about_queue_of(name, version) if not spec.queues else [] if name in queued else [_unqueued(name)]
        yield from faults_at(place, about, at_key=True)


def no_fleet(name: str, fleets: Iterable[str]) -> Finding:
    """A training fleet that is named and not there."""
    near = get_close_matches(name, list(fleets), n=1)
    return PCS_QUEUE.finding(
        cause="there is no such training fleet",
        got=name,
        allowed=", ".join(fleets) or "a fleet of training",
        fix=f"write {near[0]}" if near else "name a fleet of training",
    )


def named_twice(fleet: str) -> Finding:
    """A fleet that a queue has twice."""
    return PCS_QUEUE.finding(cause="a queue has a fleet once", got=fleet, fix="remove one of the two")


def _about_queue_of(fleet: str, version: str) -> list[Finding]:
    """What is wrong with a queue that is named after its fleet."""
    fix = "rename the fleet, or name a queue of it in pcs.queues"
    return [replace(one, path="", fix=fix) for one in check_queue(name=fleet, slurm_version=version)]


def _unqueued(fleet: str) -> Finding:
    return PCS_QUEUE.finding(
        cause="no job reaches the nodes of a fleet that is in no queue",
        got=fleet,
        fix="add it to the fleets of a queue in pcs.queues",
        severity=Severity.WARNING,
    )


def check_compute_nodes(view: PlannedFleet) -> list[Fault]:
    """Find what a compute node group of AWS PCS cannot take."""
    if not view.profile.joins_slurm or not isinstance(view.spec, FleetSpec):
        return []
    faults = []
    for finding in view.compute_node_group.findings:
        key = _key_in_fleet(view, finding)
        faults += faults_at(key, [_of_fleet(view, finding, key)], at_key=key == view.key)
    return faults


def _key_in_fleet(view: PlannedFleet, finding: Finding) -> tuple[str | int, ...]:
    """The key that a finding about a compute node group is about: a setting of its nodes, or what it follows from."""
    settings = view.slurm_node_settings
    name = {"GresCustomSettings": "Gres", "Sockets": "Parameters"}.get(finding.path, finding.path)
    if name in settings:
        return "pcs", "node_settings", view.name, name
    if finding.path == "capacity":
        return *view.key, "capacity"
    if finding.path == "update_policy":
        return *view.key, "update"
    if finding.path in ("min_node_count", "min_nodes"):
        return *view.key, "nodes" if view.spec.nodes is not None else "min_nodes"
    return (*view.key, "mig") if finding.path.startswith(("GresCustomSettings", "Sockets")) else view.key


def _of_fleet(view: PlannedFleet, finding: Finding, key: tuple[str | int, ...]) -> Finding:
    """The finding as a cluster file has it."""
    finding = replace(_in_words(finding, view.parts.pcs or PcsSpec()), path=finding.path)
    fix, allowed = (
        finding.fix.replace("the settings of the node group", f"pcs.node_settings.{view.name}"),
        finding.allowed,
    )
    if key[-1] == "Gres":
        fix = "remove Gres: it follows from mig, and AWS PCS knows GPUs that are not split by the instance type"
    elif finding.path == "capacity":
        fix, allowed = (_A_FLEET_EACH, "one block") if view.plan.terms.blocks else ("write capacity: spot", "spot")
    elif finding.path == "update_policy":
        finding = replace(finding, got="update: never")
        fix, allowed = "remove update; pin the image, and deploy when nodes may be replaced", "rolling"
    elif finding.id == STATIC_MIG.id:
        fix = f"write nodes: {view.plan.maximum} in place of min_nodes and max_nodes"
    elif finding.id == STATIC_OR_DYNAMIC.id:
        fix = "write min_nodes: 0, or make two fleets, and put both into one queue of pcs.queues"
    return replace(finding, path="", fix=fix, allowed=allowed)


_A_FLEET_EACH = "make a fleet for each block, and put them into one queue of pcs.queues"
