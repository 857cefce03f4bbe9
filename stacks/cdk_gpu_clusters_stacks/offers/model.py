"""What is asked for, and what is on offer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

#: Currency of every limit on a price.
PRICE_CURRENCY = "USD"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRequest:
    """What is asked for.

    Attributes:
        instance_type: Such as `p5.48xlarge`.
        count: Number of instances.
        hours: How long, in hours.
        starts_after: Earliest start of a block; now by default.
        ends_before: Latest end of a block; as far ahead as EC2 looks by default.
    """

    instance_type: str
    count: int
    hours: int
    starts_after: datetime | None = None
    ends_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOffer:
    """A Capacity Block that can be bought.

    Attributes:
        id: Id of the offering; it is good for a short while.
        region: Region.
        zone: Availability Zone.
        instance_type: Type of the instances.
        count: Number of instances.
        hours: How long, in hours.
        starts_at: Start.
        ends_at: End.
        price: The full price, paid up front.
        currency: Such as `USD`.
    """

    id: str
    region: str
    zone: str
    instance_type: str
    count: int
    hours: int
    starts_at: datetime
    ends_at: datetime
    price: Decimal
    currency: str

    @property
    def price_per_instance_hour(self) -> Decimal:
        """Price of one instance for an hour."""
        return self.price / self.count / self.hours

    def costs_at_most(self, limit_usd: Decimal) -> bool:
        """Whether it is within a limit; one in another currency never is.

        Args:
            limit_usd: The limit, in USD.
        """
        return self.currency == PRICE_CURRENCY and self.price <= limit_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneOffer:
    """A zone that offers the type without a block, on demand or as spot: whether there is room is unknown.

    Attributes:
        region: Region.
        zone: Availability Zone by name; by id where the API gives no more.
        zone_id: Its id, the same in every account; None where the API does not say it.
        market: `on-demand` or `spot`.
        usd_per_hour: Price of one instance for an hour; None where none is known.
        price_source: Where the price comes from, with its date.
        spot_score: EC2's placement score for the complete request, 1 (unlikely) to 10 (likely); None without one.
            For a single type, as here, it is always low by EC2's reference: only compare zones by it.
    """

    region: str
    zone: str
    market: str
    usd_per_hour: Decimal | None
    price_source: str
    zone_id: str | None = None
    spot_score: int | None = None

    def total_usd(self, request: CapacityRequest) -> Decimal | None:
        """Price of the complete request, if no price changes."""
        return None if self.usd_per_hour is None else self.usd_per_hour * request.count * request.hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What could not be asked.

    Attributes:
        region: Region, or empty.
        action: The IAM action, such as `ec2:DescribeCapacityBlockOfferings`.
        reason: Why, in words.
    """

    region: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """All that is on offer.

    Attributes:
        request: What was requested.
        blocks: Capacity Blocks, the cheapest first, then the earliest.
        zones: Zones that offer the type on demand or as spot.
        problems: What could not be asked.
    """

    request: CapacityRequest
    blocks: tuple[BlockOffer, ...]
    zones: tuple[ZoneOffer, ...]
    problems: tuple[Problem, ...]
