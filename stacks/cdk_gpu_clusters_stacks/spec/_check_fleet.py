"""Checks of one fleet that depend on its instance type.

Each names the fields that it reads, and is left out where one of them has a fault already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cdk_gpu_clusters.catalogue import InstanceType, instance_type
from cdk_gpu_clusters.catalogue.regions import partition_of
from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.rules.capacity_checks import (
    BLOCK_SIZE,
    BLOCK_WITH_PLACEMENT_GROUP,
    FOREIGN_PLACEMENT_GROUP,
    ULTRASERVER_NODES,
    check_capacity,
)
from cdk_gpu_clusters.rules.efa_choice import uses_efa
from cdk_gpu_clusters.rules.images import check_image, choose_image
from cdk_gpu_clusters.rules.interfaces import InterfacePlan, plan_interfaces
from cdk_gpu_clusters.rules.placement import check_placement
from cdk_gpu_clusters.rules.reservations import (
    RESERVATION_COUNT,
    RESERVATION_PLACEMENT,
    check_new_reservation,
)

from ._document import Key
from ._fault import Fault, faults_at, under
from ._parts import FleetPart, SpecParts
from ._rules import FIXED_SIZE, FOREIGN_GROUP, NO_EFA
from .capacity import NewReservation, Reservation, ReservationGroup, UltraServerBlock, capacity_terms
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
        plan: InterfacePlan | None = None
        findings: tuple[Finding, ...] = ()
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


def _check_group_region(view: FleetView) -> list[Fault]:
    """Find a resource group in another Region or partition than the cluster."""
    form = {ReservationGroup: "reservation_group", UltraServerBlock: "ultraserver_block"}.get(
        type(view.spec.capacity)
    )
    if form is None or view.region is None:
        return []
    arn: str = getattr(view.spec.capacity, form)
    _, partition, _, region, *_ = arn.split(":")
    wanted = (partition_of(view.region), view.region)
    if (partition, region) == wanted:
        return []
    finding = FOREIGN_GROUP.finding(
        cause="the resource group stands in another Region or partition than the cluster",
        got=f"arn:{partition}:resource-groups:{region}:…",
        allowed=f"arn:{wanted[0]}:resource-groups:{wanted[1]}:…",
        fix="give a group of the cluster's Region, or correct region:",
    )
    return faults_at((*view.key, "capacity", form), [finding])


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


_NODES = frozenset({"nodes", "min_nodes", "max_nodes"})
_CHECKS: tuple[tuple[frozenset[str], Callable[[FleetView], list[Fault]]], ...] = (
    (_NODES | {"capacity"}, _check_block_size),
    (frozenset({"efa"}), _check_efa),
    (frozenset({"efa", "interface_policy"}), _check_interfaces),
    (frozenset({"capacity"}), _check_capacity),
    (frozenset({"capacity"}), _check_group_region),
    (frozenset({"placement", "efa", "capacity"}), _check_placement),
    (frozenset({"image"}), _check_image),
)
