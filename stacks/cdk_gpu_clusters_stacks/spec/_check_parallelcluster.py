"""Checks of a cluster that AWS ParallelCluster is to run: what its configuration refuses, each fault at its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches

from cdk_gpu_clusters.catalogue import Architecture, instance_type
from cdk_gpu_clusters.catalogue.homes import HomeService, nfs_export
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity
from cdk_gpu_clusters.fleet.parallelcluster import check_queue_fleet, without_exclusive
from cdk_gpu_clusters.fleet.profile import PARALLELCLUSTER
from cdk_gpu_clusters.rules.parallelcluster import (
    MOUNT,
    NAME,
    PROVIDER_VERSION,
    SYSTEM,
    check_counts,
    check_driver,
    check_egress,
    check_mount_point,
    check_name,
    check_one_architecture,
    check_one_system,
    check_provider,
    check_removal,
    check_settings,
    check_storage_name,
    check_subnets,
)

from ._check_pcs import named_twice, no_fleet
from ._document import Fault, Key, faults_at
from ._parallelcluster_omissions import omissions, omissions_of_fleets
from ._parts import FleetPart, SpecParts, parts_of
from ._rules import (
    PARALLELCLUSTER_LOGIN,
    PARALLELCLUSTER_SECTION,
    PARALLELCLUSTER_SOURCE,
    PCS_INFERENCE,
    STORE,
)
from .data import ExistingOpenZfsSpec, StoreSpec, homes_export, homes_service
from .fleet import FleetSpec, ImageById, ImageByParameter
from .model import ORCHESTRATORS, ClusterSpec
from .network import ExistingNetwork, NewNetwork
from .parallelcluster import HEAD_TYPES, LOGIN_TYPES, CustomResourceSpec, ParallelClusterSpec
from .pcs import PcsSpec
from .planned_fleet import PlannedFleet


def parallelcluster_parts(spec: ClusterSpec) -> SpecParts:
    """The parts of a cluster as ParallelCluster is to run it.

    Args:
        spec: The cluster, of whatever orchestrator.
    """
    return replace(parts_of(spec), profile=PARALLELCLUSTER)


def check_export(spec: ClusterSpec) -> list[Fault]:
    """Find what ParallelCluster refuses of a cluster file, of whatever orchestrator, and what is left out of it.

    Args:
        spec: A cluster without errors of its own orchestrator.
    """
    profile = ORCHESTRATORS[spec.orchestrator]
    if profile.joins_parallelcluster:
        return []  # the check of the file found it
    if profile.joins_eks or profile.joins_batch or profile.joins_hyperpod:
        work = "pods of Kubernetes" if profile.joins_eks else "containers of AWS Batch"
        finding = PARALLELCLUSTER_SOURCE.finding(
            cause="SageMaker launches the nodes of this cluster"
            if profile.joins_hyperpod
            else f"jobs of this cluster are {work}",
            got=f"orchestrator: {spec.orchestrator}",
            allowed="ec2, pcs, parallelcluster",
            fix="write orchestrator: parallelcluster, with training fleets",
        )
        return faults_at(("orchestrator",), [finding])
    parts = parallelcluster_parts(spec)
    fleets = [PlannedFleet.of(part, parts) for part in parts.fleets]
    return [*omissions(spec), *_check_cluster(parts, fleets)]


def check_parallelcluster(parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find what is wrong with the section, and what ParallelCluster refuses of a file with its orchestrator."""
    if not parts.profile.joins_parallelcluster:
        return [] if parts.parallelcluster is None else faults_at(("parallelcluster",), [_NOT_THIS], at_key=True)
    faults = [*_check_cluster(parts, fleets), *_check_network(parts)]
    section = parts.slurm_section
    if isinstance(section, ParallelClusterSpec):
        faults += [*_check_machines(section, fleets), *_check_names(section, parts)]
        faults += [*_check_volumes(section, parts), *_check_custom_resource(section.custom_resource)]
    return faults


_SECTION = "parallelcluster"
_NOT_THIS = PARALLELCLUSTER_SECTION.finding(
    cause="no cluster of AWS ParallelCluster is described",
    got="parallelcluster without orchestrator: parallelcluster",
    fix="write orchestrator: parallelcluster, or remove the section",
    severity=Severity.WARNING,
)


def _check_cluster(parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    faults = [fault for part in parts.fleets if not isinstance(part.spec, FleetSpec) for fault in _no_servers(part)]
    known = [fleet for fleet in fleets if isinstance(fleet.spec, FleetSpec) and fleet.plan.type_or_none is not None]
    faults += [fault for fleet in known for fault in _check_fleet(fleet)]
    faults += _check_mounts(parts)
    systems = {fleet.name: None if fleet.spec.image is None else fleet.spec.image.os for fleet in known}
    faults += faults_at(_FLEETS, check_one_system(systems))
    blocks = [len(fleet.plan.terms.blocks) or 1 for fleet in known]
    faults += faults_at(_FLEETS, check_counts(blocks))
    faults += faults_at(_FLEETS, check_one_architecture(_architectures(parts, known)))
    # With EFA, several subnets are refused with every orchestrator.
    if isinstance(parts.network, ExistingNetwork) and not any(fleet.plan.efa for fleet in known):
        faults += faults_at(("network", "subnet_ids"), check_subnets(len(parts.network.subnet_ids)))
    section = parts.slurm_section
    return [*faults, *omissions_of_fleets(parts), *([] if section is None else _check_slurm(section, known))]


_FLEETS = ("training", "fleets")


def _architectures(parts: SpecParts, fleets: Sequence[PlannedFleet]) -> dict[str, str]:
    """Architecture of the fleets, and of the nodes beside them whose type is named."""
    found = {fleet.name: fleet.plan.instance_type.architecture.value for fleet in fleets}
    for where, name in _named_types(parts.slurm_section).items():
        with suppress(ConfigError):  # an unknown type is found elsewhere
            found[where] = instance_type(name).architecture.value
    return found


def _named_types(section: PcsSpec | ParallelClusterSpec | None) -> dict[str, str]:
    """Types of nodes that are in no fleet."""
    if section is None:
        return {}
    found = {"login nodes": section.login.instance_type} if section.login.nodes else {}
    if isinstance(section, ParallelClusterSpec):
        found["the head node"] = section.head_node.instance_type
    return {where: name for where, name in found.items() if name is not None}


def _no_servers(part: FleetPart) -> list[Fault]:
    finding = PCS_INFERENCE.finding(
        cause="model servers are a service, and Slurm runs jobs",
        got=f"the inference fleet {part.name}",
        allowed="training fleets",
        fix="put inference fleets into a cluster file of their own, with orchestrator ec2 or eks",
    )
    return faults_at(part.key, [finding], at_key=True)


def _check_fleet(fleet: PlannedFleet) -> Iterator[Fault]:
    spec, key = fleet.spec, fleet.key
    settings = fleet.slurm_node_settings
    for finding in check_queue_fleet(fleet.plan, fleet.name, settings):
        if finding.id == NAME.id:
            yield from faults_at(key, [replace(finding, fix="rename the fleet")], at_key=True)
        elif finding.path in settings:
            place = (*_key_of(fleet.parts.slurm_section), "node_settings", fleet.name, finding.path)
            yield from faults_at(place, [replace(finding, path="")])
        else:
            yield from faults_at((*key, finding.path), [replace(finding, path="")])
    own = isinstance(spec.image, ImageById)
    has_script = isinstance(spec, FleetSpec) and spec.user_data is not None
    for finding in check_driver(fleet.plan.instance_type, has_own_image=own, has_script=has_script):
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


def _check_mounts(parts: SpecParts) -> Iterator[Fault]:
    mounted: dict[str, str] = {}
    sections = [((*part.key, "mounts"), part.spec.mounts) for part in parts.fleets if isinstance(part.spec, FleetSpec)]
    if isinstance(parts.slurm_section, PcsSpec):
        sections.append((("pcs", "login", "mounts"), parts.slurm_section.login.mounts))
    for key, mounts in sections:
        for point, store in mounts.items():
            yield from faults_at((*key, point), [*check_mount_point(point), *check_storage_name(store)])
            yield from faults_at((*key, point), _check_root_of_efs((parts.stores or {}).get(store)))
            first = mounted.setdefault(point, store)
            if first != store:
                finding = MOUNT.finding(
                    cause="all nodes of ParallelCluster mount the same, and others mount another store here",
                    got=store,
                    allowed=first,
                    fix="mount it at another directory",
                )
                yield from faults_at((*key, point), [finding])


def _check_root_of_efs(store: StoreSpec | None) -> Iterator[Finding]:
    service = None if store is None else homes_service(store)
    if store is not None and service is HomeService.EFS and homes_export(store, service) != nfs_export(service):
        yield MOUNT.finding(
            cause="ParallelCluster mounts the root of an EFS file system",
            got=homes_export(store, service),
            allowed="/",
            fix="remove export_path, or use a file system of its own",
        )


def _key_of(section: PcsSpec | ParallelClusterSpec | None) -> Key:
    """The key of the section of a Slurm cluster."""
    return (_SECTION,) if isinstance(section, ParallelClusterSpec) else ("pcs",)


def _check_slurm(section: PcsSpec | ParallelClusterSpec, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    faults, above = list[Fault](), _key_of(section)
    for finding in check_settings(section.slurm_settings, level="cluster"):
        faults += faults_at((*above, "slurm_settings", finding.path), [replace(finding, path="")])
    names = [fleet.name for fleet in fleets]
    for name, queue in section.queues.items():
        key = (*above, "queues", name)
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


# What only a file with this orchestrator has.


def _check_network(parts: SpecParts) -> list[Fault]:
    """Find a closed network, whose nodes do not reach DynamoDB."""
    is_closed = isinstance(parts.network, NewNetwork) and parts.network.egress == "closed"
    return faults_at(("network", "egress"), check_egress(is_closed=is_closed))


def _check_machines(section: ParallelClusterSpec, fleets: Sequence[PlannedFleet]) -> Iterator[Fault]:
    for name, given in (("head_node", section.head_node.instance_type), ("login", section.login.instance_type)):
        key = (_SECTION, name, "instance_type")
        if given is None:
            continue
        try:
            accelerator = instance_type(given).accelerator
        except ConfigError as unknown:
            yield from faults_at(key, unknown.findings)
            continue
        if accelerator is not None:
            types = HEAD_TYPES if name == "head_node" else LOGIN_TYPES
            mine = fleets[0].plan.instance_type.architecture if fleets else Architecture.X86_64
            finding = PARALLELCLUSTER_LOGIN.finding(
                cause="no job runs on this node",
                got=f"{given}, with {accelerator.count} {accelerator.name}",
                allowed="a type without accelerators",
                fix=f"write instance_type: {types[mine]}; fleets hold the GPU nodes",
            )
            yield from faults_at(key, [finding])


def _check_names(section: ParallelClusterSpec, parts: SpecParts) -> Iterator[Fault]:
    """Find fleets that are named and not there."""
    names = [part.name for part in parts.fleets if isinstance(part.spec, FleetSpec)]
    for name in section.node_settings:
        if name not in names:
            yield from faults_at((_SECTION, "node_settings", name), [no_fleet(name, names)], at_key=True)
    for name, queue in section.queues.items():
        key = (_SECTION, "queues", name, "fleets")
        for index, fleet in enumerate(queue.fleets):
            if fleet in queue.fleets[:index]:
                yield from faults_at((*key, index), [named_twice(fleet)])
            if fleet not in names:
                yield from faults_at((*key, index), [no_fleet(fleet, names)])


def _check_volumes(section: ParallelClusterSpec, parts: SpecParts) -> Iterator[Fault]:
    """Find volumes of stores that are not there, and stores whose volume is not known."""
    stores = parts.stores or {}
    homes = [name for name, store in stores.items() if isinstance(store, ExistingOpenZfsSpec)]
    for name in section.volumes if parts.stores is not None else ():
        if name not in homes and stores.get(name, "") is not None:
            near = get_close_matches(name, homes, n=1)
            finding = STORE.finding(
                cause="no store on FSx for OpenZFS that exists already has this name",
                got=name,
                allowed=", ".join(homes) or "a store with existing_openzfs",
                fix=f"write {near[0]}" if near else "remove it: ids of what the file makes are known at deployment",
            )
            yield from faults_at((_SECTION, "volumes", name), [finding], at_key=True)
    for part in parts.fleets:
        for point, name in part.spec.mounts.items():
            if name in homes and name not in section.volumes:
                finding = MOUNT.finding(
                    cause="ParallelCluster mounts a volume of FSx for OpenZFS by its id",
                    got=name,
                    fix=f"add {name}: fsvol-... to parallelcluster.volumes, as aws fsx describe-volumes shows it",
                )
                yield from faults_at((*part.key, "mounts", point), [finding])


def _check_custom_resource(made: CustomResourceSpec | None) -> Iterator[Fault]:
    """Find what is surprising about a cluster that the deployment makes. Names of files fit ParallelCluster."""
    if made is None:
        return
    key = (_SECTION, "custom_resource")
    for finding in check_provider(version=made.version, has_role=made.role_arn is not None):
        if finding.id == PROVIDER_VERSION.id:
            fix = "remove it and make another cluster, or keep it as long as there is a cluster of this version"
            yield from faults_at((*key, "version"), [replace(finding, path="", fix=fix)])
        else:
            fix = finding.fix.replace("pass", "write role_arn: of", 1)
            yield from faults_at(key, [replace(finding, path="", fix=fix)], at_key=True)
    for finding in check_removal(is_deleted=made.delete_with_stack):
        fix = (
            "remove it once the cluster has been made; from then on, run pcluster delete-cluster before you delete the "
            "stack"
        )
        said = replace(finding, path="", got="delete_with_stack: true", allowed="false", fix=fix)
        yield from faults_at((*key, "delete_with_stack"), [said])
