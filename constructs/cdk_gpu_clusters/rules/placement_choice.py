"""Which placement group a fleet's nodes go into: the user's word, its capacity, and what is usual, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.rules.capacity import CapacityDecision, CapacityKind, PlacementUse
from cdk_gpu_clusters.rules.placement import MAX_SPREAD_INSTANCES_PER_ZONE, PlacementStrategy


class GroupOrigin(str, Enum):
    """Where a fleet's placement group comes from."""

    NONE = "none"
    NEW = "new"
    GIVEN = "given"
    RESERVATION = "of the reservation"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementChoice:
    """The placement group of a fleet.

    Attributes:
        origin: Where it comes from.
        strategy: Strategy of a group that is to be made, or that a reservation was made in; None for no group, and for
            a given one.
        reason: Why, in a sentence for a person.
    """

    origin: GroupOrigin
    strategy: PlacementStrategy | None
    reason: str


def choose_placement(
    decision: CapacityDecision,
    *,
    wish: PlacementStrategy | None = None,
    is_given: bool = False,
    has_reservation_group: bool = False,
) -> PlacementChoice:
    """Choose the placement group of a fleet. What EC2 would refuse is for `check_capacity` and `check_placement`.

    Args:
        decision: What follows from the capacity.
        wish: What the user asks for, None if he leaves it open.
        is_given: Whether he gives an existing group.
        has_reservation_group: Whether the reservation was made in a group: a cluster group, as no other holds one.

    Example:
        >>> from cdk_gpu_clusters.rules.capacity import CapacityTerms, decide_capacity
        >>> spot = decide_capacity(CapacityTerms(kind=CapacityKind.SPOT), efa=True)
        >>> choose_placement(spot).reason
        'cluster placement group: nodes exchange EFA traffic'
    """
    if wish is PlacementStrategy.NONE:
        return _none("no placement group, as asked for")
    if is_given:
        return PlacementChoice(
            origin=GroupOrigin.GIVEN, strategy=None, reason="the placement group that was given"
        )
    if has_reservation_group and wish in (None, PlacementStrategy.CLUSTER):
        return PlacementChoice(
            origin=GroupOrigin.RESERVATION,
            strategy=PlacementStrategy.CLUSTER,
            reason="the placement group that the reservation was made in: another one loses reserved nodes",
        )
    if wish is not None:
        return _new(wish, f"{wish.value} placement group, as asked for")
    if decision.placement is PlacementUse.OWN:
        return _new(PlacementStrategy.CLUSTER, decision.placement_reason)
    if decision.placement is PlacementUse.RESERVATION:
        return _none("no placement group: the reservation was made in none")
    return _none(decision.placement_reason)


def reservation_is_placed(wish: PlacementStrategy | None, *, efa: bool) -> bool:
    """Whether a new reservation for a fleet is made inside a cluster placement group.

    Args:
        wish: What the user asks for, None if he leaves it open.
        efa: Whether the nodes exchange EFA traffic.
    """
    return efa if wish is None else wish is PlacementStrategy.CLUSTER


def spread_of_servers(
    instance_type: InstanceType, kind: CapacityKind, *, node_count: int, zone_count: int
) -> PlacementStrategy | None:
    """How nodes of model servers are placed where the user leaves it open: apart, if EC2 can hold that many apart.

    Args:
        instance_type: Type of the nodes.
        kind: How they are bought: reserved capacity lies where it lies.
        node_count: Most nodes.
        zone_count: Availability Zones of the nodes.

    Returns:
        `SPREAD`, or None to leave it to the capacity.
    """
    if kind.is_reserved or "spread" not in (instance_type.placement_strategies or ()):
        return None
    fits = 0 < node_count <= MAX_SPREAD_INSTANCES_PER_ZONE * zone_count
    return PlacementStrategy.SPREAD if fits else None


def _none(reason: str) -> PlacementChoice:
    return PlacementChoice(origin=GroupOrigin.NONE, strategy=None, reason=reason)


def _new(strategy: PlacementStrategy, reason: str) -> PlacementChoice:
    return PlacementChoice(origin=GroupOrigin.NEW, strategy=strategy, reason=reason)
