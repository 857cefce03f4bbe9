"""Capacity x placement: what a purchase option demands of the launch template, the group and the schedule.

`decide_capacity` is the capacity table as a function; `capacity_checks` finds the combinations that fail. All take
plain values and know nothing of CDK.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from cdk_gpu_clusters.errors import ConfigError, define_rule

TIME_ZONE = define_rule("GPU-CAP-015", "a time has a time zone", source="design: synthesis is deterministic")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityTerms:
    """The requested capacity, as plain values.

    Attributes:
        kind: How the instances are bought.
        reservation_id: `cr-…` of an On-Demand Capacity Reservation or Capacity Block; None where it is known
            only at deployment, or where a group is given.
        reservation_group_arn: Resource group of reservations; the only way to target an UltraServer block.
        starts_at: When a block starts; None if it is already running.
        ends_at: When a block ends.
        uses_open_reservations: On-demand only: consume a matching open reservation if there is one.
        max_price_usd_per_hour: Spot only: price limit; the on-demand price if None.
    """

    kind: CapacityKind
    reservation_id: str | None = None
    reservation_group_arn: str | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    uses_open_reservations: bool = False
    max_price_usd_per_hour: float | None = None


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
        size_changes_after_deploy: Whether the template must not carry `DesiredCapacity`.
        drain_before_end: How long before the end of a block the group goes to zero; None without an end.
    """

    market_type: str | None
    reservation_preference: str | None
    targets_reservation: bool
    placement: PlacementUse
    placement_reason: str
    terminates_before_launch: bool
    size_changes_after_deploy: bool
    drain_before_end: timedelta | None


# EC2 warns 40 minutes before the end and terminates from 30; P6e-GB200 wants its instances gone at 60.
DRAIN_BEFORE_END = {
    CapacityKind.CAPACITY_BLOCK: timedelta(minutes=40),
    CapacityKind.ULTRASERVER_BLOCK: timedelta(minutes=70),
}
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
    placement, reason = _decide_placement(kind, efa)
    return CapacityDecision(
        market_type=_MARKET.get(kind),
        reservation_preference=preference,
        targets_reservation=kind.is_reserved,
        placement=placement,
        placement_reason=reason,
        terminates_before_launch=kind.is_reserved,
        size_changes_after_deploy=kind.is_block,
        drain_before_end=DRAIN_BEFORE_END.get(kind),
    )


def _decide_placement(kind: CapacityKind, efa: bool) -> tuple[PlacementUse, str]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWindow:
    """When a block's nodes may run.

    Attributes:
        starts_at: When the block starts; None if it is already running.
        drain_at: When its group goes to zero.
        ends_at: When the block ends.
    """

    starts_at: datetime | None
    drain_at: datetime
    ends_at: datetime


def block_window(terms: CapacityTerms) -> BlockWindow | None:
    """When the nodes of a block may run; None for capacity without an end."""
    if terms.ends_at is None or not terms.kind.is_block:
        return None
    drain_at = terms.ends_at - DRAIN_BEFORE_END[terms.kind]
    return BlockWindow(starts_at=terms.starts_at, drain_at=drain_at, ends_at=terms.ends_at)


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
