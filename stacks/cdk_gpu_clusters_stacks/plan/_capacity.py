"""How a fleet is bought and placed, as values and in words."""

from __future__ import annotations

from cdk_gpu_clusters.rules.capacity import CapacityDecision, CapacityTerms, block_window, decide_capacity
from cdk_gpu_clusters.rules.placement import (
    GroupOrigin,
    choose_placement,
    reservation_is_placed,
    spread_of_servers,
)
from cdk_gpu_clusters_stacks.spec.capacity import (
    CapacityBlock,
    CapacitySpec,
    NewReservation,
    OnDemand,
    Reservation,
    ReservationGroup,
    Spot,
    UltraServerBlock,
    capacity_terms,
    utc_text,
)
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec
from cdk_gpu_clusters_stacks.spec.views import FleetView

from ._cost import run_hours
from .fleet_model import CapacityPlan, PlacementPlan


def plan_capacity(view: FleetView) -> CapacityPlan:
    """Describe how the nodes of a fleet are bought."""
    capacity = view.spec.capacity
    terms = capacity_terms(capacity)
    decision = decide_capacity(terms, efa=view.uses_efa)
    window = block_window(terms)
    ends_at = capacity.new_reservation.end_date if isinstance(capacity, NewReservation) else terms.ends_at
    unknown = {}
    if terms.kind.is_block and terms.starts_at is None:
        unknown = dict.fromkeys(("starts_at", "hours"), "the file has no starts_at: the block runs already")
    if isinstance(capacity, NewReservation):
        unknown["reservation_id"] = "the reservation is made at the deployment"
    return CapacityPlan(
        kind=terms.kind.value,
        words=_words(capacity, view.spec.maximum_nodes),
        reason=_reason(decision, terms),
        reservation_id=terms.reservation_id,
        reservation_group_arn=terms.reservation_group_arn,
        is_made_here=isinstance(capacity, NewReservation),
        # A managed node group says spot itself; the market of a block stands in the template all the same.
        market_type=decision.market_type if terms.kind.is_block or not view.on_eks else None,
        starts_at=None if terms.starts_at is None else utc_text(terms.starts_at),
        drains_at=None if window is None else utc_text(window.drain_at),
        ends_at=None if ends_at is None else utc_text(ends_at),
        hours=run_hours(terms.starts_at, terms.ends_at),
        size_changes_after_deploy=decision.size_changes_after_deploy,
        terminates_before_launch=decision.terminates_before_launch,
        max_price_usd_per_hour=terms.max_price_usd_per_hour,
        unknown=unknown,
    )


def _words(capacity: CapacitySpec, nodes: int) -> str:
    match capacity:
        case OnDemand():
            return "on demand"
        case Spot():
            limit = capacity.spot.max_price_usd_per_hour
            return "spot" if limit is None else f"spot, at most {limit:g} USD an hour for each node"
        case Reservation():
            return f"reservation {capacity.reservation}"
        case ReservationGroup():
            return f"reservations of the group {capacity.reservation_group.rpartition('/')[2]}"
        case CapacityBlock():
            return f"Capacity Block {capacity.capacity_block}"
        case UltraServerBlock():
            return f"UltraServer block of the group {capacity.ultraserver_block.rpartition('/')[2]}"
        case NewReservation():
            return f"new On-Demand Capacity Reservation of {nodes} instance{'' if nodes == 1 else 's'}"


def _reason(decision: CapacityDecision, terms: CapacityTerms) -> str:
    if decision.drain_before_end is not None:
        minutes = int(decision.drain_before_end.total_seconds() // 60)
        return (
            f"the fleet grows when the block is delivered, drains {minutes} minutes before its end, and a deployment "
            "in between never changes its size"
        )
    if decision.terminates_before_launch:
        return "only reserved instances are launched; a broken node goes before its replacement comes"
    if decision.market_type == "spot":
        return "EC2 takes nodes back on two minutes' notice; the node drains then"
    if terms.uses_open_reservations:
        return "ordinary instances; a matching open reservation is used"
    return "ordinary instances; no open reservation of the account is used up by them"


def plan_placement(view: FleetView) -> PlacementPlan:
    """Describe the placement group of a fleet."""
    spec, wish = view.spec, view.spec.placement_strategy
    capacity, terms = spec.capacity, capacity_terms(spec.capacity)
    is_serving = isinstance(spec, InferenceFleetSpec)
    if isinstance(capacity, NewReservation):
        # As `app.build_cluster` makes it: a reservation of model servers has no group.
        name, reserved = None, not is_serving and reservation_is_placed(wish, efa=view.uses_efa)
    else:
        name = capacity.placement_group if isinstance(capacity, Reservation | ReservationGroup) else None
        reserved = name is not None
    if is_serving and wish is None and not view.on_eks:
        wish = spread_of_servers(
            view.type, terms.kind, node_count=spec.maximum_nodes, zone_count=view.zone_count
        )
        reason = "spread placement group: each node on other hardware" if wish else ""
    else:
        reason = ""
    choice = choose_placement(
        decide_capacity(terms, efa=view.uses_efa), wish=wish, has_reservation_group=reserved
    )
    is_new = choice.origin is GroupOrigin.NEW or (reserved and name is None)
    return PlacementPlan(
        strategy=None if choice.strategy is None else choice.strategy.value,
        group_name=name if choice.origin is GroupOrigin.RESERVATION else None,
        is_made_here=choice.origin is not GroupOrigin.NONE and is_new,
        reason=reason or choice.reason,
    )
