"""Checks of a cluster that AWS ParallelCluster is to run: what its configuration refuses, each fault at its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.parallelcluster import check_queue_fleet, without_exclusive
from cdk_gpu_clusters.fleet.profile import PARALLELCLUSTER
from cdk_gpu_clusters.rules.parallelcluster import (
    MOUNT,
    NAME,
    SYSTEM,
    check_counts,
    check_mount_point,
    check_name,
    check_one_architecture,
    check_one_system,
    check_settings,
    check_storage_name,
)

from ._document import Fault, faults_at
from ._parts import SpecParts, parts_of
from ._rules import PARALLELCLUSTER_SOURCE, PCS_INFERENCE
from .fleet import FleetSpec, ImageByParameter
from .model import ORCHESTRATORS, ClusterSpec
from .pcs import PcsSpec
from .planned_fleet import PlannedFleet


def parallelcluster_parts(spec: ClusterSpec) -> SpecParts:
    """The parts of a cluster as ParallelCluster is to run it.

    Args:
        spec: The cluster, of whatever orchestrator.
    """
    return replace(parts_of(spec), profile=PARALLELCLUSTER)


def check_parallelcluster(spec: ClusterSpec) -> list[Fault]:
    """Find what ParallelCluster refuses of a cluster file.

    Args:
        spec: A cluster without errors of its own orchestrator.
    """
    source = ORCHESTRATORS[spec.orchestrator]
    if source.joins_eks or source.joins_hyperpod:
        finding = PARALLELCLUSTER_SOURCE.finding(
            cause="jobs of this cluster are pods of Kubernetes"
            if source.joins_eks
            else "SageMaker launches the nodes of this cluster",
            got=f"orchestrator: {spec.orchestrator}",
            allowed="ec2, pcs",
            fix="write orchestrator: ec2 or pcs, with training fleets",
        )
        return faults_at(("orchestrator",), [finding])
    parts = parallelcluster_parts(spec)
    fleets = [PlannedFleet.of(part, parts) for part in parts.fleets]
    faults = [fault for fleet in fleets for fault in _check_fleet(fleet)]
    faults += _check_mounts(spec, fleets)
    systems = {fleet.name: None if fleet.spec.image is None else fleet.spec.image.os for fleet in fleets}
    faults += faults_at(("training", "fleets"), check_one_system(systems))
    blocks = [len(fleet.plan.terms.blocks) or 1 for fleet in fleets]
    faults += faults_at(("training", "fleets"), check_counts(blocks))
    faults += faults_at(("training", "fleets"), check_one_architecture(_architectures(spec, fleets)))
    return faults + (_check_slurm(spec.pcs, fleets) if spec.orchestrator == "pcs" else [])


def _architectures(spec: ClusterSpec, fleets: Sequence[PlannedFleet]) -> dict[str, str]:
    """Architecture of the fleets, and of login nodes."""
    found = {fleet.name: fleet.plan.instance_type.architecture.value for fleet in fleets}
    if spec.orchestrator == "pcs" and spec.pcs.login.nodes:
        found["login nodes"] = instance_type(spec.pcs.login.instance_type).architecture.value
    return found


def _check_fleet(fleet: PlannedFleet) -> Iterator[Fault]:
    spec, key = fleet.spec, fleet.key
    if not isinstance(spec, FleetSpec):
        finding = PCS_INFERENCE.finding(
            cause="model servers are a service, and Slurm runs jobs",
            got=f"the inference fleet {fleet.name}",
            allowed="training fleets",
            fix="put inference fleets into a cluster file of their own, with orchestrator ec2 or eks",
        )
        yield from faults_at(key, [finding], at_key=True)
        return
    settings = fleet.slurm_node_settings
    for finding in check_queue_fleet(fleet.plan, fleet.name, settings):
        if finding.id == NAME.id:
            yield from faults_at(key, [replace(finding, fix="rename the fleet")], at_key=True)
        elif finding.path in settings:
            place = ("pcs", "node_settings", fleet.name, finding.path)
            yield from faults_at(place, [replace(finding, path="")])
        else:
            yield from faults_at((*key, finding.path), [replace(finding, path="")])
    if isinstance(spec.image, ImageByParameter):
        yield from faults_at((*key, "image", "parameter"), [_image_by_id(spec.image.parameter)])
    if spec.root_volume.encryption_key_arn is not None:
        yield from faults_at((*key, "root_volume", "encryption_key_arn"), [_account_key()])


def _image_by_id(parameter: str) -> Finding:
    return SYSTEM.finding(
        cause="ParallelCluster takes the id of an image that pcluster build-image made",
        got=parameter,
        allowed="ami-...",
        fix="write image: with its id and os",
    )


def _account_key() -> Finding:
    return SYSTEM.finding(
        cause="ParallelCluster encrypts root volumes of nodes with the account's key for EBS",
        got="a key of its own",
        fix="make the key the account's default for EBS, and remove encryption_key_arn",
    )


def _check_mounts(spec: ClusterSpec, fleets: Sequence[PlannedFleet]) -> Iterator[Fault]:
    mounted: dict[str, str] = {}
    sections = [((*fleet.key, "mounts"), fleet.spec.mounts) for fleet in fleets]
    if spec.orchestrator == "pcs":
        sections.append((("pcs", "login", "mounts"), spec.pcs.login.mounts))
    for key, mounts in sections:
        for point, store in mounts.items():
            yield from faults_at((*key, point), [*check_mount_point(point), *check_storage_name(store)])
            first = mounted.setdefault(point, store)
            if first != store:
                finding = MOUNT.finding(
                    cause="all nodes of ParallelCluster mount the same, and others mount another store here",
                    got=store,
                    allowed=first,
                    fix="mount it at another directory",
                )
                yield from faults_at((*key, point), [finding])


def _check_slurm(pcs: PcsSpec, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    faults = []
    for finding in check_settings(pcs.slurm_settings, level="cluster"):
        faults += faults_at(("pcs", "slurm_settings", finding.path), [replace(finding, path="")])
    names = [fleet.name for fleet in fleets]
    for name, queue in pcs.queues.items():
        key = ("pcs", "queues", name)
        faults += faults_at(key, check_name(name), at_key=True)
        if name in names and list(queue.fleets) != [name]:
            finding = NAME.finding(
                cause="ParallelCluster gives each fleet a queue of its own, and this queue has the name of one",
                got=f"{name} with {', '.join(queue.fleets)}",
                fix="rename the queue",
            )
            faults += faults_at(key, [finding], at_key=True)
        for finding in check_settings(without_exclusive(queue.slurm_settings), level="queue"):
            faults += faults_at((*key, "slurm_settings", finding.path), [replace(finding, path="")])
    return faults
