"""Plans of managed node groups of Amazon EKS, without CDK: for what follows from a plan alone."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.fleet.node_group import NodeGroupPlan, NodeGroupRequest, plan_node_group
from cdk_gpu_clusters.fleet.plan import FleetPlan, plan_fleet
from cdk_gpu_clusters.fleet.profile import EKS_MANAGED
from cdk_gpu_clusters.fleet.request import FleetRequest, ReservationFacts
from matrix.axes import Makes
from matrix.combinations import Combination, frames
from matrix.outcome import outcome_of, terms_of


def combinations() -> Iterator[Combination]:
    """Those that a managed node group takes: every type with each of its layouts, and every layout and purchase."""
    seen: set[object] = set()
    for frame in frames():
        if frame.profile.makes is not Makes.NODE_GROUP:
            continue
        outcome = outcome_of(frame)
        if outcome.interfaces is None or not outcome.is_accepted:
            continue
        layout = outcome.interfaces.interfaces
        sights = {(frame.instance_type, layout), (frame.purchase, layout)}
        if not sights <= seen:
            seen |= sights
            yield frame


def planned(combination: Combination) -> tuple[FleetPlan, NodeGroupPlan]:
    """The plan of the fleet, and what EKS adds to it."""
    asked = combination.asked.purchase
    fleet = plan_fleet(
        FleetRequest(
            name="pool",
            instance_type=combination.instance_type,
            profile=EKS_MANAGED,
            minimum=combination.nodes,
            maximum=combination.nodes,
            terms=terms_of(combination.purchase),
            reservation=ReservationFacts(
                is_for_fleet=asked.is_made_here, has_placement_group=asked.is_in_group and not asked.is_made_here
            ),
            efa=combination.efa,
            interface_policy=combination.policy,
        )
    )
    return fleet, plan_node_group(fleet, NodeGroupRequest(name="pool"))
