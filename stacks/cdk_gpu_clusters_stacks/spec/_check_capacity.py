"""Checks of where a fleet's instances come from, and of their placement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.plan import Topic
from cdk_gpu_clusters.rules.capacity_checks import (
    BLOCK_SIZE,
    BLOCK_WITH_PLACEMENT_GROUP,
    FOREIGN_PLACEMENT_GROUP,
    RESERVATION_COUNT,
    RESERVATION_PLACEMENT,
    ULTRASERVER_NODES,
    check_new_reservation,
)
from cdk_gpu_clusters.rules.node_group import check_block_of_group
from cdk_gpu_clusters.rules.placement import SPREAD_SIZE

from ._check_values import foreign_place
from ._document import Fault, Key, faults_at, under
from ._rules import FIXED_SIZE, FOREIGN_GROUP
from .capacity import NewReservation, ReservationGroup, UltraServerBlock
from .inference import InferenceFleetSpec
from .planned_fleet import PlannedFleet


def check_block_size(view: PlannedFleet) -> list[Fault]:
    """Find a range of nodes on a block."""
    if not view.spec.scales or not view.plan.terms.kind.is_block:
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


def _at_cause(view: PlannedFleet, findings: Iterable[Finding], *, key: Key) -> list[Fault]:
    """Place findings about capacity at the field that has to change."""
    faults: list[Fault] = []
    for finding in findings:
        field = _ELSEWHERE.get(finding.id)
        if field is None and finding.id in _ABOUT_NODES:
            field = "max_nodes" if view.spec.scales else "nodes"
        faults += faults_at((*view.key, field), [finding]) if field else under(key, [finding])
    return faults


_ABOUT_NODES = (BLOCK_SIZE.id, ULTRASERVER_NODES.id, RESERVATION_COUNT.id)


def check_capacity(fleet: PlannedFleet) -> list[Fault]:
    """Find capacity and placement that do not suit the type, the size or each other."""
    plan, key = fleet.plan, (*fleet.key, "capacity")
    faults = _at_cause(fleet, plan.about(Topic.CAPACITY, Topic.RESERVATION_GROUP), key=key)
    faults += _check_new_reservation(fleet, (*key, "new_reservation"))
    is_requested = fleet.spec.placement_strategy is not None
    faults += faults_at((*fleet.key, "placement") if is_requested else key, plan.about(Topic.EFA_UNUSED))
    if plan.terms.kind.is_block:  # it takes no placement group at all
        return faults
    findings = plan.about(Topic.PLACEMENT, Topic.EFA_TOGETHER)
    if isinstance(fleet.spec, InferenceFleetSpec):
        fix = "use fewer nodes, more zones, or no placement group"
        findings = [replace(one, fix=fix) if one.id == SPREAD_SIZE.id else one for one in findings]
    return faults + faults_at((*fleet.key, "placement"), findings)


def _check_new_reservation(fleet: PlannedFleet, key: Key) -> list[Fault]:
    capacity = fleet.spec.capacity
    if not isinstance(capacity, NewReservation) or fleet.node_count is None:
        return []
    options = capacity.new_reservation
    findings = check_new_reservation(
        instance_count=fleet.node_count,
        ends_at=options.end_date,
        unlimited=options.unlimited,
        placement=None if "placement" in fleet.broken else fleet.spec.placement_strategy,
    )
    return _at_cause(fleet, findings, key=key)


def check_group_region(view: PlannedFleet) -> list[Fault]:
    """Find a resource group in another Region or partition than the cluster."""
    form = {ReservationGroup: "reservation_group", UltraServerBlock: "ultraserver_block"}.get(type(view.spec.capacity))
    if form is None or view.region is None:
        return []
    arn: str = getattr(view.spec.capacity, form)
    foreign = foreign_place(arn, view.region)
    if foreign is None:
        return []
    finding = FOREIGN_GROUP.finding(
        cause="the resource group is in another Region or partition than the cluster",
        got=foreign.got,
        allowed=foreign.allowed,
        fix="give a group of the cluster's Region, or correct region:",
    )
    return faults_at((*view.key, "capacity", form), [finding])


def check_node_group(view: PlannedFleet) -> list[Fault]:
    """Find capacity that a node group of EKS cannot take."""
    if not view.on_eks:
        return []
    return faults_at((*view.key, "capacity"), check_block_of_group(view.plan.terms))
