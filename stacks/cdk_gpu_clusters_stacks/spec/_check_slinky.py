"""Checks of a Slurm cluster on Kubernetes, and of the fleets that belong to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.kubernetes.software.slurm import SLURM_NODES, check_slurm_cluster
from cdk_gpu_clusters.rules.gres import NO_SLICES

from ._document import Fault, Key, faults_at
from ._parts import FleetPart, SpecParts
from ._rules import SLINKY_FLEETS, SLINKY_SIZE, SLINKY_UPDATE
from .fleet import FleetSpec
from .planned_fleet import COUNTS, PlannedFleet
from .slinky import SlinkySpec

_SECTION = ("eks", "software", "slurm")
#: Fields of a fleet that decide its nodes in Slurm.
_READ = COUNTS | {"mig", "efa", "interface_policy"}


def check_slinky(parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find what is wrong with the Slurm cluster of the section, with its place in the file."""
    spec = None if parts.eks is None else parts.eks.software.slurm
    if spec is None or not parts.profile.joins_eks:
        return []
    training = {part.name: part for part in parts.fleets if isinstance(part.spec, FleetSpec)}
    faults = list(_check_names(spec, training))
    if not faults:  # its fleets are known
        faults = _check_cluster(spec, training, {fleet.name: fleet for fleet in fleets})
    return [*faults, *_check_sizes(spec, training), *_check_updates(spec, training)]


def _check_names(spec: SlinkySpec, training: Mapping[str, FleetPart]) -> Iterator[Fault]:
    names = spec.fleets or ()
    for index, name in enumerate(names):
        if name in names[:index]:
            finding = SLINKY_FLEETS.finding(cause="a fleet is named twice", got=name, fix="remove one of the two")
            yield from faults_at((*_SECTION, "fleets", index), [finding])
        elif name not in training:
            near = get_close_matches(name, training, n=1)
            finding = SLINKY_FLEETS.finding(
                cause="there is no such training fleet",
                got=name,
                allowed=", ".join(training) or "a fleet of training",
                fix=f"write {near[0]}" if near else "name a fleet of training",
            )
            yield from faults_at((*_SECTION, "fleets", index), [finding])
    if not spec.fleet_names(training):
        finding = SLINKY_FLEETS.finding(
            cause="Slurm has no nodes",
            got="no training fleet",
            allowed="one training fleet or more",
            fix="add a fleet to training, or remove slurm",
        )
        yield from faults_at((*_SECTION, "fleets") if spec.fleets is not None else _SECTION, [finding])


def _check_sizes(spec: SlinkySpec, training: Mapping[str, FleetPart]) -> Iterator[Fault]:
    for name in spec.fleet_names(training):
        part = training.get(name)
        if part is not None and part.spec.scales and not part.broken & COUNTS:
            finding = SLINKY_SIZE.finding(
                cause="Slurm has a pod for each of the most nodes, also while no job waits",
                got=f"{part.spec.minimum_nodes} to {part.spec.maximum_nodes} nodes",
                allowed="nodes: with the number of nodes",
                fix=f"write nodes: {part.spec.maximum_nodes}, or leave the fleet out of eks.software.slurm.fleets",
                severity=Severity.WARNING,
            )
            yield from faults_at((*part.key, "max_nodes"), [finding])


def _check_updates(spec: SlinkySpec, training: Mapping[str, FleetPart]) -> Iterator[Fault]:
    """Find managed groups of which EKS gives up the update. Karpenter waits for the jobs."""
    for name in spec.fleet_names(training):
        part = training.get(name)
        if part is None or part.broken & {"update", "managed_by"} or part.spec.managed_by == "karpenter":
            continue
        if part.spec.update == "rolling":
            finding = SLINKY_UPDATE.finding(
                cause="a job of Slurm keeps its pod from eviction, and EKS fails the update of the nodes after 15 "
                "minutes: CloudFormation then rolls back",
                got="update: rolling",
                allowed="update: never, or jobs that end within 15 minutes",
                fix=f"set the partition {name} down, and let its jobs end, before a deployment that changes the nodes; "
                "or write update: never (docs: Amazon EKS: day 2)",
                severity=Severity.WARNING,
            )
            yield from faults_at((*part.key, "update"), [finding])


def _check_cluster(
    spec: SlinkySpec, training: Mapping[str, FleetPart], planned: Mapping[str, PlannedFleet]
) -> list[Fault]:
    """Find what Slinky cannot run, if no fault hides what its nodes are."""
    names = spec.fleet_names(training)
    fleets = [planned[name] for name in names if name in planned]
    sound = [one for one in fleets if one.plan.interfaces_or_none is not None and not one.broken & _READ]
    if len(sound) < len(names) or any(one.spec.mig and one.plan.mig is None for one in sound):
        return []
    findings = check_slurm_cluster([one.node_group.pool for one in sound], spec.cluster)
    return [fault for finding in findings for fault in _placed(finding, training)]


def _placed(finding: Finding, training: Mapping[str, FleetPart]) -> list[Fault]:
    """The finding at its key: of the section, or of the fleet that it is about."""
    head, *rest = finding.path.split(".")
    told = replace(finding, path="", fix=_FIXES.get(finding.id, finding.fix))
    if head != "pools":
        return faults_at((*_SECTION, head, *rest), [told])
    if finding.id == SLURM_NODES.id or not rest:
        return faults_at((*_SECTION, "fleets"), [told])
    name, *inner = rest
    if inner[:1] == ["gpu_instance_ids"]:
        return faults_at((*_SECTION, "gpu_instance_ids", name), [told])
    key: Key = training[name].key
    return faults_at((*key, *inner), [told], at_key=not inner)


#: Rule -> what to change in a cluster file.
_FIXES = {
    SLURM_NODES.id: "leave fleets out of eks.software.slurm.fleets, or rename them",
    NO_SLICES.id: "write nvml_image, or gpu_instance_ids with what nvidia-smi mig -lgi shows on a node, below "
    "eks.software.slurm; or leave the fleet out of eks.software.slurm.fleets",
}
