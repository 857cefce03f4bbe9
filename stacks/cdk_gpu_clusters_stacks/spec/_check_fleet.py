"""Checks of one fleet. Each names the fields that it reads, and is left out where one of them has a fault already."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cdk_gpu_clusters.catalogue import InstanceType, instance_type
from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.rules.capacity import (
    BLOCK_SIZE,
    BLOCK_WITH_PLACEMENT_GROUP,
    FOREIGN_PLACEMENT_GROUP,
    RESERVATION_COUNT,
    RESERVATION_PLACEMENT,
    ULTRASERVER_NODES,
    check_capacity,
    check_new_reservation,
)
from cdk_gpu_clusters.rules.efa_choice import uses_efa
from cdk_gpu_clusters.rules.images import check_image, choose_image
from cdk_gpu_clusters.rules.interfaces import InterfacePlan, plan_interfaces
from cdk_gpu_clusters.rules.placement import check_placement

from ._document import Key
from ._fault import Fault, faults_at, under
from ._parts import FleetPart, SpecParts
from ._rules import FIXED_SIZE, NO_EFA, NODE_COUNT, USER_DATA_FILE, VOLUME_BALANCE
from .capacity import NewReservation, Reservation, ReservationGroup, capacity_terms
from .fleet import FleetSpec
from .image import ImageByOs


@dataclass(frozen=True, slots=True)
class FleetView:
    """A fleet with what the catalogue and the rules say about it.

    Attributes:
        key: Path of the fleet in the file.
        spec: The fleet.
        broken: Fields of it that have a fault already.
        type: Its instance type's record.
        region: Region of the cluster, if it is sound.
        zone: Zone of the cluster, if it is sound.
        plan: Network interfaces of a node; None where there is no such layout.
        plan_findings: Why there is none.
    """

    key: Key
    spec: FleetSpec
    broken: frozenset[str]
    type: InstanceType
    region: str | None
    zone: str | None
    plan: InterfacePlan | None
    plan_findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, key: Key, part: FleetPart, parts: SpecParts) -> FleetView:
        """Look a fleet up in the catalogue.

        Raises:
            ConfigError: If its instance type is unknown.
        """
        kind = instance_type(part.spec.instance_type)
        zone = parts.network.availability_zone if parts.network else None
        plan, findings = None, ()
        try:
            plan = plan_interfaces(kind, policy=part.spec.interface_policy, efa=uses_efa(kind, part.spec.efa))
            findings = plan.findings
        except ConfigError as fault:
            findings = fault.findings
        return cls(key, part.spec, part.broken, kind, parts.region, zone, plan, findings)

    @property
    def name(self) -> str:
        """The fleet's name."""
        return str(self.key[-1])

    @property
    def uses_efa(self) -> bool:
        """Whether its nodes have EFA interfaces."""
        return uses_efa(self.type, self.spec.efa)

    @property
    def node_count(self) -> int | None:
        """Most nodes that it can have, if that is sound."""
        return None if self.broken & {"nodes", "min_nodes", "max_nodes"} else self.spec.maximum_nodes or None


def check_fleet(view: FleetView) -> list[Fault]:
    """Find what is wrong with one fleet."""
    return [fault for needs, check in _CHECKS if not needs & view.broken for fault in check(view)]


def _check_nodes(view: FleetView) -> list[Fault]:
    spec = view.spec
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
        return faults_at(view.key, [finding], at_key=True)
    if spec.minimum_nodes > spec.maximum_nodes:
        finding = NODE_COUNT.finding(
            cause="more nodes at least than at most",
            got=f"{spec.min_nodes} to {spec.max_nodes}",
            allowed=f"at most {spec.max_nodes}",
            fix="exchange min_nodes and max_nodes",
        )
        return faults_at((*view.key, "min_nodes"), [finding])
    return []


def _check_block_size(view: FleetView) -> list[Fault]:
    if not view.spec.scales or not capacity_terms(view.spec.capacity).kind.is_block:
        return []
    finding = FIXED_SIZE.finding(
        cause="a block's nodes start and end together, so the fleet cannot scale",
        got="min_nodes and max_nodes",
        allowed="nodes",
        fix="write nodes: with the number of instances in the block",
    )
    return faults_at((*view.key, "max_nodes"), [finding])


def _check_efa(view: FleetView) -> list[Fault]:
    if not view.spec.efa or view.type.network.efa is not None:
        return []
    finding = NO_EFA.finding(
        cause=f"{view.type.name} has no EFA",
        got="efa: true",
        allowed="efa: false, or a type with EFA",
        fix="remove efa, or choose a larger size of the family",
    )
    return faults_at((*view.key, "efa"), [finding])


def _check_interfaces(view: FleetView) -> list[Fault]:
    return faults_at((*view.key, "interface_policy"), view.plan_findings)


#: Faults of capacity that another field of the fleet causes.
_ELSEWHERE = {
    BLOCK_WITH_PLACEMENT_GROUP.id: "placement",
    FOREIGN_PLACEMENT_GROUP.id: "placement",
    RESERVATION_PLACEMENT.id: "placement",
}


def _at_cause(view: FleetView, findings: Iterable[Finding], *, key: Key) -> list[Fault]:
    """Place findings about capacity at the field that has to change."""
    faults: list[Fault] = []
    for finding in findings:
        field = _ELSEWHERE.get(finding.id)
        if field is None and finding.id in _ABOUT_NODES:
            field = "max_nodes" if view.spec.scales else "nodes"
        faults += faults_at((*view.key, field), [finding]) if field else under(key, [finding])
    return faults


_ABOUT_NODES = (BLOCK_SIZE.id, ULTRASERVER_NODES.id, RESERVATION_COUNT.id)


def _check_capacity(view: FleetView) -> list[Fault]:
    capacity = view.spec.capacity
    key = (*view.key, "capacity")
    placement = None if "placement" in view.broken else view.spec.placement_strategy
    has_group = isinstance(capacity, Reservation | ReservationGroup) and capacity.placement_group is not None
    findings = check_capacity(
        capacity_terms(capacity),
        view.type,
        node_count=view.node_count,
        region=view.region,
        placement=placement,
        has_reservation_group=has_group or isinstance(capacity, NewReservation),
    )
    faults = _at_cause(view, findings, key=key)
    if isinstance(capacity, NewReservation) and view.node_count is not None:
        options = capacity.new_reservation
        findings = check_new_reservation(
            instance_count=view.node_count,
            ends_at=options.end_date,
            unlimited=options.unlimited,
            placement=placement,
        )
        faults += _at_cause(view, findings, key=(*key, "new_reservation"))
    return faults


def _check_placement(view: FleetView) -> list[Fault]:
    strategy = view.spec.placement_strategy
    if strategy is None or capacity_terms(view.spec.capacity).kind.is_block:
        return []
    findings = check_placement(view.type, strategy, node_count=view.node_count, efa=view.uses_efa)
    return faults_at((*view.key, "placement"), findings)


def _check_image(view: FleetView) -> list[Fault]:
    """An image by id or parameter is the user's word: what is in it cannot be known here."""
    image = view.spec.image
    if image is not None and not isinstance(image, ImageByOs):
        return []
    key = (*view.key, "image", "os") if image else (*view.key, "instance_type")
    try:
        row = choose_image(view.type, operating_system=image.os if image else None)
    except ConfigError as fault:
        return faults_at(key, fault.findings)
    return faults_at(key, check_image(view.type, row))


def _check_user_data(view: FleetView) -> list[Fault]:
    path = view.spec.user_data
    if path is None:
        return []
    try:
        text = path.read_bytes().decode("utf-8")
        cause = "the script is empty" if not text.strip() else ""
    except FileNotFoundError:
        cause = "there is no such file"
    except UnicodeDecodeError:
        cause = "the script is not UTF-8 text"
    except (OSError, ValueError) as fault:
        cause = f"the script cannot be read: {(getattr(fault, 'strerror', None) or str(fault)).lower()}"
    if not cause:
        return []
    finding = USER_DATA_FILE.finding(
        cause=cause, got=str(path), fix="give the path of a shell script, relative to the cluster file"
    )
    return faults_at((*view.key, "user_data"), [finding])


def _check_volume(view: FleetView) -> list[Fault]:
    volume = view.spec.root_volume
    findings = []
    if (
        volume.iops is not None
        and volume.size_gib is not None
        and volume.iops > max(3000, 500 * volume.size_gib)
    ):
        findings.append(
            ("iops", f"{volume.iops} IOPS on {volume.size_gib} GiB", "raise size_gib, or lower iops")
        )
    if volume.throughput_mib_per_s is not None and volume.throughput_mib_per_s * 4 > (volume.iops or 3000):
        got = f"{volume.throughput_mib_per_s} MiB/s with {volume.iops or 3000} IOPS"
        fix = f"set iops to {4 * volume.throughput_mib_per_s} or more"
        findings.append(("throughput_mib_per_s", got, fix))
    return [
        fault
        for name, got, fix in findings
        for fault in faults_at(
            (*view.key, "root_volume", name),
            [
                VOLUME_BALANCE.finding(
                    cause="EBS refuses this mix",
                    got=got,
                    allowed="at most 500 IOPS per GiB, and a throughput of at most a quarter of the IOPS",
                    fix=fix,
                )
            ],
        )
    ]


_NODES = frozenset({"nodes", "min_nodes", "max_nodes"})
_CHECKS: tuple[tuple[frozenset[str], Callable[[FleetView], list[Fault]]], ...] = (
    (_NODES, _check_nodes),
    (_NODES | {"capacity"}, _check_block_size),
    (frozenset({"efa"}), _check_efa),
    (frozenset({"efa", "interface_policy"}), _check_interfaces),
    (frozenset({"capacity"}), _check_capacity),
    (frozenset({"placement", "efa", "capacity"}), _check_placement),
    (frozenset({"image"}), _check_image),
    (frozenset({"user_data"}), _check_user_data),
    (frozenset({"root_volume"}), _check_volume),
)
