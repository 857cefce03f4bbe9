"""The rules about clusters, asked of a cluster file: every fault at once, each at its key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.plan import Topic
from cdk_gpu_clusters.rules.fabric import check_fabric

from ._check_batch import check_batch, check_environment_of, check_job_of
from ._check_canary import check_canaries
from ._check_data import check_stores
from ._check_eks import check_devices, check_efa_claims, check_eks, check_node_pool
from ._check_hyperpod import check_group_of, check_hyperpod
from ._check_inference import check_balancer, check_inference_nodes, check_inference_values, check_server
from ._check_monitoring import check_monitoring
from ._check_multi_node import check_model_over_nodes
from ._check_network import check_network, check_region, check_service_network, check_zones
from ._check_nodes import (
    check_alarms_of,
    check_block_size,
    check_capacity,
    check_group_region,
    check_machine_image,
    check_mig,
    check_mounted_stores,
    check_mounts,
    check_node_group,
    check_number,
    check_size,
    check_training_nodes,
    check_training_values,
    check_volume,
)
from ._check_parallelcluster import check_parallelcluster
from ._check_pcs import check_compute_nodes, check_pcs
from ._check_slinky import check_slinky
from ._check_teams import check_eks_teams
from ._check_values import check_tags
from ._document import Fault, dotted, faults_at
from ._parts import FleetPart, SpecParts, parts_of
from ._rules import FLEET_NAME, FLEETS
from .fleet import FleetSpec
from .model import ClusterSpec
from .planned_fleet import COUNTS, PlannedFleet


def check_cluster(spec: ClusterSpec) -> list[Finding]:
    """Find everything that the rules say about a cluster, errors and warnings.

    Args:
        spec: The cluster, from a file or made in Python.

    Returns:
        Findings whose paths are dotted keys, such as `training.fleets.trainers.capacity`.
    """
    return check_fleets(spec)[0]


def check_fleets(spec: ClusterSpec) -> tuple[list[Finding], list[PlannedFleet]]:
    """Find the same as `check_cluster`, with the plans of the fleets that it read.

    Returns:
        The findings, and the fleets whose instance type is known.
    """
    faults, fleets = _judge(parts_of(spec))
    return [replace(fault.finding, path=dotted(fault.key)) for fault in faults], fleets


def faults_of(parts: SpecParts) -> list[Fault]:
    """Find everything that the rules find in the valid parts of a cluster file."""
    return _judge(parts)[0]


def _judge(parts: SpecParts) -> tuple[list[Fault], list[PlannedFleet]]:
    fleets: list[PlannedFleet] = []
    faults = check_tags(("tags",), parts.tags) + _check_fleets(parts)
    about_region = check_region(parts.region) if parts.region is not None else []
    faults += about_region
    wrong_region = parts.region if about_region else None
    if about_region:  # a wrong Region makes no zone or type wrong
        parts = replace(parts, region=None)
    for part in parts.fleets:
        fleet = PlannedFleet.of(part, parts)
        faults += check_fleet_values(fleet)
        faults += faults_at((*part.key, "instance_type"), fleet.plan.about(Topic.TYPE))
        if fleet.plan.type_or_none is not None:
            fleets.append(fleet)
            faults += check_fleet_nodes(fleet)
    faults += check_stores(parts) + check_network(parts, fleets) + check_eks(parts)
    faults += check_slinky(parts, fleets) + check_eks_teams(parts, fleets) + check_efa_claims(parts, fleets)
    faults += check_canaries(fleets)
    faults += check_pcs(parts, fleets) + check_parallelcluster(parts, fleets) + check_batch(parts)
    faults += check_hyperpod(parts) + check_monitoring(parts, fleets)
    if parts.network is not None:
        faults += check_zones(parts.network, parts.region, fleets, wrong_region=wrong_region)
        faults += check_service_network(parts.network, fleets)
    return faults + _check_fabrics(fleets), fleets


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
    return [fault for index, part in enumerate(parts.fleets) for fault in _check_name(part, parts.fleets[:index])]


def _check_name(part: FleetPart, before: Iterable[FleetPart]) -> list[Fault]:
    if part.name not in [other.name for other in before]:
        return []
    finding = FLEET_NAME.finding(
        cause="a fleet in training has this name, too", got=part.name, fix="rename one of them"
    )
    return faults_at(part.key, [finding], at_key=True)


def _check_fabrics(views: Sequence[PlannedFleet]) -> list[Fault]:
    """Fleets that share an EFA fabric can exchange EFA traffic; the fault is at the first that cannot."""
    faults: list[Fault] = []
    fabrics: dict[str, list[PlannedFleet]] = {}
    for view in views:
        fabric = getattr(view.spec, "fabric", None)
        # All nodes of HyperPod are in the one security group of their cluster.
        if fabric is None or view.profile.joins_hyperpod:
            continue
        if view.plan.efa and not view.broken & {"fabric", "efa"}:
            fabrics.setdefault(fabric, []).append(view)
    for fabric, members in fabrics.items():
        findings = check_fabric([member.plan.instance_type for member in members])
        names = ", ".join(member.name for member in members)
        fix = "give one of the fleets another fabric: key, such as fabric: " + members[-1].name
        findings = [
            replace(finding, cause=f"fleets {names} share the fabric {fabric}, but {finding.cause}", fix=fix)
            for finding in findings
        ]
        faults += faults_at((*members[-1].key, "instance_type"), findings)
    return faults


# One fleet: what all fleets have in common, then what only its kind has. Each check names the fields that it reads. It
# is left out if one of them has a fault already.

FleetCheck: TypeAlias = Callable[[PlannedFleet], list[Fault]]

_OF_VALUES: tuple[tuple[frozenset[str], FleetCheck], ...] = (
    (COUNTS, check_number),
    (frozenset({"root_volume"}), check_volume),
)
_OF_NODES: tuple[tuple[frozenset[str], FleetCheck], ...] = (
    (COUNTS | {"capacity"}, check_block_size),
    (frozenset(), check_capacity),
    (frozenset({"capacity"}), check_group_region),
    (frozenset({"capacity", "update"}), check_node_group),
    (COUNTS | {"capacity", "mig", "update"}, check_compute_nodes),
    (COUNTS | {"capacity", "mig", "update"}, check_environment_of),
    (COUNTS | {"efa", "interface_policy"}, check_job_of),
    (COUNTS | {"capacity", "interface_policy", "mig", "mounts"}, check_group_of),
    (COUNTS | {"capacity", "efa", "interface_policy", "managed_by", "mig", "update"}, check_node_pool),
    (frozenset({"image"}), check_machine_image),
    (frozenset(), check_devices),
    (COUNTS | {"devices_per_server", "mig", "nodes_per_server", "server", "update"}, check_model_over_nodes),
    (frozenset(), check_mig),
    (frozenset({"environment", "user_data", "mig", "server"}), check_size),
)


def check_fleet_values(fleet: PlannedFleet) -> list[Fault]:
    """Find what is wrong with a fleet of whatever type."""
    key, spec, parts = fleet.key, fleet.spec, fleet.parts
    faults = check_tags((*key, "tags"), spec.tags, above=parts.tags)
    faults += [fault for check in _unbroken(_OF_VALUES, fleet.broken) for fault in check(fleet)]
    if not any(name.partition(".")[0] == "alarms" for name in fleet.broken):
        faults += check_alarms_of(fleet)
    faults += check_mounted_stores(fleet)
    if isinstance(spec, FleetSpec):
        return faults + check_training_values(fleet, spec)
    faults += check_server(fleet, spec.server)
    if fleet.profile.runs_model_servers:  # elsewhere a Service takes its place
        faults += check_balancer(fleet, spec)
    return faults + check_inference_values(fleet, spec)


def check_fleet_nodes(view: PlannedFleet) -> list[Fault]:
    """Find what is wrong with a fleet of its type."""
    faults = [fault for check in _unbroken(_OF_NODES, view.broken) for fault in check(view)]
    faults += check_mounts(view)
    if isinstance(view.spec, FleetSpec):
        return faults + check_training_nodes(view)
    return faults + check_inference_nodes(view, view.spec)


def _unbroken(checks: Iterable[tuple[frozenset[str], FleetCheck]], broken: frozenset[str]) -> list[FleetCheck]:
    """The checks that read no broken field; `server` is one where any key of it is."""
    names = broken | {name.partition(".")[0] for name in broken}
    return [check for needs, check in checks if not needs & names]
