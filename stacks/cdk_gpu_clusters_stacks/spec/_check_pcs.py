"""Checks of a Slurm cluster of AWS PCS, and of fleets that join one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.pcs import DEFAULT_SLURM_VERSION
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity
from cdk_gpu_clusters.rules.pcs import check_feature, check_pcs_cluster, check_queue

from ._base import SpecModel
from ._document import Fault, faults_at
from ._parts import SpecParts
from ._rules import PCS_EXISTING, PCS_INFERENCE, PCS_LOGIN, PCS_QUEUE, PCS_SECTION
from .data import CheckpointsSpec, ExistingCheckpointsSpec
from .fleet import FleetSpec
from .pcs import LoginNodesSpec, PcsSpec
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
    faults += [*_check_login(spec.login, parts), *_check_queues(spec, parts)]
    return faults + (_check_new(spec, parts, fleets) if spec.existing is None else _check_existing(spec))


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
        zone=None if parts.network is None else parts.network.availability_zone,
        accounting=spec.accounting.enabled,
        purge_after_days=spec.accounting.keep_days,
        rest_api=spec.rest_api,
        scale_down_idle_seconds=None if minutes is None else minutes * 60,
        slurm_settings=spec.slurm_settings,
    )
    if spec.metrics:
        findings += check_feature("metrics", version, path="metrics")
    faults = []
    for finding in findings:
        key = _KEYS.get(finding.path, (finding.path,) if finding.path in PcsSpec.model_fields else ())
        if finding.path == "subnet":
            faults += faults_at(("network",), [replace(finding, path="")])
        else:
            faults += faults_at(("pcs", *key), [replace(finding, path="", fix=_in_words(finding))])
    return faults


def _in_words(finding: Finding) -> str:
    """The fix as a cluster file has it, not as Python does."""
    if finding.path == "slurm_version":
        return f'write slurm_version: "{DEFAULT_SLURM_VERSION}"'
    return finding.fix


def _check_existing(spec: PcsSpec) -> list[Fault]:
    given = [name for name in _OF_A_NEW_CLUSTER if _is_given(spec, name)]
    finding = PCS_EXISTING.finding(
        cause="an existing cluster is as it is",
        got=", ".join(given),
        allowed="existing, with login and queues or without",
        fix="remove these keys, or remove existing",
    )
    return faults_at(("pcs",), [finding] if given else [])


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
                cause="nobody computes on a login node",
                got=f"{login.instance_type}, with {accelerator.count} {accelerator.name}",
                allowed="a type without accelerators",
                fix="write instance_type: m7i.large; fleets hold the GPU nodes",
            )
            yield from faults_at((*key, "instance_type"), [finding])
    if parts.stores is None:
        return
    for point, name in login.mounts.items():
        store = parts.stores.get(name)
        is_bucket = isinstance(store, CheckpointsSpec | ExistingCheckpointsSpec)
        if name in parts.stores and not is_bucket:
            continue
        finding = PCS_LOGIN.finding(
            cause="a bucket is not mounted" if is_bucket else "there is no such store",
            got=name,
            allowed=", ".join(
                other
                for other, one in parts.stores.items()
                if not isinstance(one, CheckpointsSpec | ExistingCheckpointsSpec)
            )
            or "a file system of data",
        )
        yield from faults_at((*key, "mounts", point), [finding])


def _check_queues(spec: PcsSpec, parts: SpecParts) -> Iterator[Fault]:
    version = spec.existing.slurm_version if spec.existing else spec.slurm_version or DEFAULT_SLURM_VERSION
    names = {part.name: part for part in parts.fleets if isinstance(part.spec, FleetSpec)}
    if not spec.queues:
        for name, part in names.items():
            findings = [replace(one, path="") for one in check_queue(name=name, slurm_version=version)]
            fix = "rename the fleet, or name a queue of it in pcs.queues"
            yield from faults_at(part.key, [replace(one, fix=fix) for one in findings], at_key=True)
    for name, queue in spec.queues.items():
        key = ("pcs", "queues", name)
        for finding in check_queue(name=name, slurm_version=version, slurm_settings=queue.slurm_settings):
            inner = () if finding.path == "name" else ("slurm_settings",)
            yield from faults_at((*key, *inner), [replace(finding, path="")], at_key=not inner)
        for index, fleet in enumerate(queue.fleets):
            if fleet not in names:
                finding = PCS_QUEUE.finding(
                    cause="there is no such training fleet",
                    got=fleet,
                    allowed=", ".join(names) or "a fleet of training",
                )
                yield from faults_at((*key, "fleets", index), [finding])
    if spec.queues:
        waiting = {fleet for queue in spec.queues.values() for fleet in queue.fleets}
        for name, part in names.items():
            if name not in waiting:
                finding = PCS_QUEUE.finding(
                    cause="no job reaches the nodes of a fleet that is in no queue",
                    got=name,
                    fix="add it to the fleets of a queue in pcs.queues",
                    severity=Severity.WARNING,
                )
                yield from faults_at(part.key, [finding], at_key=True)


def check_compute_nodes(view: PlannedFleet) -> list[Fault]:
    """Find what a compute node group of AWS PCS cannot take."""
    if not view.profile.joins_slurm:
        return []
    faults = []
    for finding in view.compute_node_group.findings:
        field = {"min_node_count": "min_nodes", "min_nodes": "min_nodes", "capacity": "capacity"}.get(finding.path)
        if field == "min_nodes" and view.spec.min_nodes is None:
            field = "nodes" if view.spec.nodes is not None else "max_nodes"
        key = (*view.key, field) if field else view.key
        faults += faults_at(key, [replace(finding, path="")], at_key=not field)
    return faults
