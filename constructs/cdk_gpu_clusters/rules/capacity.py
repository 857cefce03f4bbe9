"""Capacity x placement: what a purchase option demands of the launch template, the group and the schedule.

`decide_capacity` is the capacity table as a function; `capacity_checks` finds the combinations that fail. All take
plain values and know nothing of CDK.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from cdk_gpu_clusters.errors import ConfigError, define_rule

TIME_ZONE = define_rule("GPU-CAP-015", "a time has a time zone", source="design: synthesis is deterministic")


#: Resource types of a new reservation: one in a placement group is made by a function (decision 25).
RESERVATION, RESERVATION_IN_GROUP = "AWS::EC2::CapacityReservation", "Custom::EC2CapacityReservation"


class CapacityKind(str, Enum):
    """How the instances are bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVATION = "reservation"
    CAPACITY_BLOCK = "capacity-block"
    ULTRASERVER_BLOCK = "ultraserver-block"

    @property
    def is_block(self) -> bool:
        """Whether the capacity has a start and an end fixed at purchase."""
        return self in (CapacityKind.CAPACITY_BLOCK, CapacityKind.ULTRASERVER_BLOCK)

    @property
    def is_reserved(self) -> bool:
        """Whether the number of instances is fixed, so that a replacement must terminate first."""
        return self.is_block or self is CapacityKind.RESERVATION


class TargetCapacityType(str, Enum):
    """What a distribution segment of an Auto Scaling group launches into (EC2 Auto Scaling API)."""

    ON_DEMAND_RESERVATION = "on-demand-capacity-reservation"
    CAPACITY_BLOCK = "capacity-block"
    INTERRUPTIBLE_RESERVATION = "interruptible-capacity-reservation"
    ON_DEMAND = "on-demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTerms:
    """One of several Capacity Blocks of a fleet.

    Attributes:
        reservation_id: `cr-…` of the block.
        starts_at: When it starts; None if it is already running.
        ends_at: When it ends.
        node_count: Instances bought; as many as the fleet has nodes if None.
    """

    reservation_id: str
    ends_at: datetime
    starts_at: datetime | None = None
    node_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityTerms:
    """The requested capacity, as plain values.

    Attributes:
        kind: How the instances are bought.
        reservation_id: `cr-…` of an On-Demand Capacity Reservation or Capacity Block; None where it is known
            only at deployment, or where a group is given.
        reservation_group_arn: Resource group of reservations, which launches into an UltraServer block target, unless
            EKS makes them.
        blocks: The blocks of a fleet that has several.
        segment: What the fleet launches into, in order, out of a resource group with reservations of several types.
        starts_at: When a block starts, or the first of several; None if it is already running.
        ends_at: When a block or a reservation ends, the last of several blocks, or when the fleet shall be empty; None
            for capacity without an end.
        uses_open_reservations: On-demand only: consume a matching open reservation if there is one.
        max_price_usd_per_hour: Spot only: price limit; the on-demand price if None.
    """

    kind: CapacityKind
    reservation_id: str | None = None
    reservation_group_arn: str | None = None
    blocks: tuple[BlockTerms, ...] = ()
    segment: tuple[TargetCapacityType, ...] = ()
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    uses_open_reservations: bool = False
    max_price_usd_per_hour: float | None = None

    @property
    def reservation_ids(self) -> tuple[str, ...]:
        """The reservations and blocks that are named by their ids."""
        if self.blocks:
            return tuple(block.reservation_id for block in self.blocks)
        return () if self.reservation_id is None else (self.reservation_id,)


def terms_of_blocks(blocks: Sequence[BlockTerms]) -> CapacityTerms:
    """The terms of a fleet with several Capacity Blocks: from the first start to the last end.

    Args:
        blocks: The blocks, in any order.
    """
    starts = [one.starts_at for one in blocks if one.starts_at is not None]
    return CapacityTerms(
        kind=CapacityKind.CAPACITY_BLOCK,
        blocks=tuple(blocks),
        starts_at=min(starts) if len(starts) == len(blocks) else None,
        ends_at=max((one.ends_at for one in blocks), default=None),
    )


class PlacementUse(str, Enum):
    """Where a fleet's placement group comes from."""

    NONE = "none"
    OWN = "own"
    RESERVATION = "of the reservation"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityDecision:
    """What follows from the terms: one row of the capacity table.

    Attributes:
        market_type: `InstanceMarketOptions.MarketType` of the launch template, None to leave it out.
        reservation_preference: `CapacityReservationPreference`, None to leave it out (a target excludes it).
        targets_reservation: Whether the launch template carries a `CapacityReservationTarget`.
        placement: Which placement group the instances go into by default.
        placement_reason: Why, in a sentence for a person.
        terminates_before_launch: Whether a replacement must free its slot first.
    """

    market_type: str | None
    reservation_preference: str | None
    targets_reservation: bool
    placement: PlacementUse
    placement_reason: str
    terminates_before_launch: bool


# EC2 warns 40 minutes before the end of a block and terminates from 30; P6e-GB200 wants its instances gone at 60.
# Nodes that outlive a reservation go on at the on-demand price (EC2 user guide, "Cancel a Capacity Reservation"), so
# their drain ends before it does.
DRAIN_BEFORE_END = {
    CapacityKind.CAPACITY_BLOCK: timedelta(minutes=40),
    CapacityKind.ULTRASERVER_BLOCK: timedelta(minutes=70),
    CapacityKind.RESERVATION: timedelta(minutes=15),
    CapacityKind.ON_DEMAND: timedelta(minutes=15),
    CapacityKind.SPOT: timedelta(minutes=15),
}
# From the drain to the end of an instance: a run of the state machine, and the termination.
_TERMINATION = timedelta(minutes=5)
_MARKET = {
    CapacityKind.SPOT: "spot",
    CapacityKind.CAPACITY_BLOCK: "capacity-block",
    CapacityKind.ULTRASERVER_BLOCK: "capacity-block",
}


def decide_capacity(terms: CapacityTerms, *, efa: bool) -> CapacityDecision:
    """Decide market type, reservation target, placement and sizing for some terms.

    Args:
        terms: The requested capacity.
        efa: Whether the fleet has EFA interfaces.

    Example:
        >>> decide_capacity(CapacityTerms(kind=CapacityKind.SPOT), efa=True).market_type
        'spot'
    """
    kind = terms.kind
    preference = None
    if kind is CapacityKind.ON_DEMAND:
        preference = "open" if terms.uses_open_reservations else "none"
    placement, reason = _decide_placement(terms, efa)
    return CapacityDecision(
        market_type=_MARKET.get(kind),
        reservation_preference=preference,
        targets_reservation=kind.is_reserved and not terms.segment,
        placement=placement,
        placement_reason=reason,
        terminates_before_launch=kind.is_reserved,
    )


def _decide_placement(terms: CapacityTerms, efa: bool) -> tuple[PlacementUse, str]:
    kind = terms.kind
    if terms.segment:
        return PlacementUse.NONE, "no placement group: the reservations of the resource group need not be in one"
    if kind.is_block:
        return (
            PlacementUse.NONE,
            "no placement group: a Capacity Block is already placed, and EC2 refuses one",
        )
    if kind is CapacityKind.RESERVATION:
        return (
            PlacementUse.RESERVATION,
            "the placement group that the reservation was made in, if any: another one loses reserved nodes",
        )
    if efa:
        return PlacementUse.OWN, "cluster placement group: nodes exchange EFA traffic"
    return PlacementUse.NONE, "no placement group: the nodes exchange no EFA traffic"


def block_drain_at(terms: CapacityTerms) -> datetime | None:
    """When the nodes of a block begin to drain; None for other capacity."""
    return None if terms.ends_at is None or not terms.kind.is_block else terms.ends_at - drain_lead(terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityWindow:
    """When a group has nodes on one reservation, block or life span.

    Attributes:
        starts_at: From when; None for always.
        drain_at: Until when: then they are drained; None forever.
        node_count: How many.
        reservation_id: `cr-…` of their block, if it is one of several; None otherwise.
    """

    starts_at: datetime | None
    drain_at: datetime | None
    node_count: int
    reservation_id: str | None = None


def drain_lead(terms: CapacityTerms, *, drain_timeout_seconds: int = 0) -> timedelta:
    """How long before the end of the capacity its nodes begin to drain.

    Fixed on a block, whose nodes EC2 ends. Elsewhere a node may take all of its time-out, and nodes that outlive a
    reservation are billed on demand, so that a longer time-out begins earlier.

    Args:
        terms: How the nodes are bought.
        drain_timeout_seconds: How long a node may take to stop its work.

    Example:
        >>> reserved = CapacityTerms(kind=CapacityKind.RESERVATION)
        >>> [drain_lead(reserved, drain_timeout_seconds=60 * m).seconds // 60 for m in (10, 60)]
        [15, 65]
    """
    has_block = TargetCapacityType.CAPACITY_BLOCK in terms.segment
    lead = DRAIN_BEFORE_END[CapacityKind.CAPACITY_BLOCK if has_block else terms.kind]
    return lead if terms.kind.is_block else max(lead, timedelta(seconds=drain_timeout_seconds) + _TERMINATION)


def capacity_windows(
    terms: CapacityTerms, node_count: int, *, drain_timeout_seconds: int = 0
) -> tuple[CapacityWindow, ...]:
    """When a fleet has nodes: one window for each block, or one for all.

    Args:
        terms: How its nodes are bought.
        node_count: Most nodes of the fleet.
        drain_timeout_seconds: How long a node may take to stop its work.
    """
    lead = drain_lead(terms, drain_timeout_seconds=drain_timeout_seconds)
    if terms.blocks:
        return tuple(
            CapacityWindow(
                starts_at=block.starts_at,
                drain_at=block.ends_at - lead,
                node_count=block.node_count or node_count,
                reservation_id=block.reservation_id,
            )
            for block in terms.blocks
        )
    drain_at = None if terms.ends_at is None else terms.ends_at - lead
    return (CapacityWindow(starts_at=terms.starts_at, drain_at=drain_at, node_count=node_count),)


def parse_instant(value: str | datetime, *, name: str) -> datetime:
    """Read an instant such as `2026-12-01T11:30Z` as UTC.

    Args:
        value: ISO 8601 text with a time zone, or an aware datetime.
        name: Name of the value, for the error.

    Raises:
        ConfigError: GPU-CAP-015 if it is not an instant or has no time zone.
    """
    try:
        instant = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        finding = TIME_ZONE.finding(
            cause=f"{name} is not an instant with a time zone",
            got=str(value),
            allowed="ISO 8601 with an offset, such as 2026-12-01T11:30Z",
            fix="append Z for UTC",
            path=name,
        )
        raise ConfigError([finding])
    return instant.astimezone(UTC)
