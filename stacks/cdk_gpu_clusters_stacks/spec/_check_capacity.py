"""Checks of where a fleet's instances come from, and of their placement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.rules.capacity_checks import (
    BLOCK_SIZE,
    BLOCK_WITH_PLACEMENT_GROUP,
    FOREIGN_PLACEMENT_GROUP,
    ULTRASERVER_NODES,
    check_capacity,
)
from cdk_gpu_clusters.rules.interfaces import check_efa_unused
from cdk_gpu_clusters.rules.node_group import check_block_of_group
from cdk_gpu_clusters.rules.placement import (
    SPREAD_SIZE,
    PlacementStrategy,
    check_efa_together,
    check_group_of_reservation,
    check_placement,
)
from cdk_gpu_clusters.rules.reservations import (
    RESERVATION_COUNT,
    RESERVATION_PLACEMENT,
    check_new_reservation,
)

from ._check_values import foreign_place
from ._document import Fault, Key, faults_at, under
from ._fleet_view import FleetView
from ._rules import FIXED_SIZE, FOREIGN_GROUP
from .capacity import NewReservation, Reservation, ReservationGroup, UltraServerBlock, capacity_terms
from .inference import InferenceFleetSpec


def check_block_size(view: FleetView) -> list[Fault]:
    """Find a range of nodes on a block."""
    if not view.spec.scales or not capacity_terms(view.spec.capacity).kind.is_block:
        return []
    finding = FIXED_SIZE.finding(
        cause="a block's nodes start and end together, so the fleet cannot scale",
        got="min_nodes and max_nodes",
        allowed="nodes",
        fix="write nodes: with the number of instances in the block",
    )
    return faults_at((*view.key, "max_nodes"), [finding])


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


def check_terms(view: FleetView) -> list[Fault]:
    """Find capacity that the type, the size or the placement does not go with."""
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
    if has_group and placement is not PlacementStrategy.NONE:
        findings += check_group_of_reservation(view.type)
        findings += check_efa_unused(view.type, efa=view.uses_efa, placement=PlacementStrategy.CLUSTER)
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


def check_group_region(view: FleetView) -> list[Fault]:
    """Find a resource group in another Region or partition than the cluster."""
    form = {ReservationGroup: "reservation_group", UltraServerBlock: "ultraserver_block"}.get(
        type(view.spec.capacity)
    )
    if form is None or view.region is None:
        return []
    arn: str = getattr(view.spec.capacity, form)
    foreign = foreign_place(arn, view.region)
    if foreign is None:
        return []
    finding = FOREIGN_GROUP.finding(
        cause="the resource group stands in another Region or partition than the cluster",
        got=foreign.got,
        allowed=foreign.allowed,
        fix="give a group of the cluster's Region, or correct region:",
    )
    return faults_at((*view.key, "capacity", form), [finding])


def check_node_group(view: FleetView) -> list[Fault]:
    """Find capacity that a node group of EKS cannot take."""
    if not view.on_eks:
        return []
    return faults_at((*view.key, "capacity"), check_block_of_group(capacity_terms(view.spec.capacity)))


def check_strategy(view: FleetView) -> list[Fault]:
    """Find a placement strategy that the type or the size does not go with."""
    strategy = view.spec.placement_strategy
    if strategy is None or capacity_terms(view.spec.capacity).kind.is_block:
        return []
    findings = check_placement(
        view.type, strategy, node_count=view.node_count, efa=view.uses_efa, zone_count=view.zone_count
    )
    findings += check_efa_unused(view.type, efa=view.uses_efa, placement=strategy)
    findings += check_efa_together(
        efa=view.uses_efa,
        is_placed=strategy is not PlacementStrategy.NONE,
        is_reserved=capacity_terms(view.spec.capacity).kind.is_reserved,
        node_count=view.node_count or 0,
    )
    if isinstance(view.spec, InferenceFleetSpec):
        fix = "use fewer nodes, more zones, or no placement group"
        findings = [replace(one, fix=fix) if one.id == SPREAD_SIZE.id else one for one in findings]
    return faults_at((*view.key, "placement"), findings)
