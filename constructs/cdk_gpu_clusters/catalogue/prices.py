"""List prices with date and source: enough to estimate with, never to bill with.

A price that no source gives is absent: `newest_price` returns None instead of a guess.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cache

from cdk_gpu_clusters.catalogue._files import DATA, read_json, record

ANY_REGION = "*"
_NO_SOURCE = "general knowledge"


class Market(StrEnum):
    """How a thing is bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    CAPACITY_BLOCK = "capacity-block"
    STORAGE = "storage"
    CONTROL_PLANE = "control-plane"


class PriceStatus(StrEnum):
    """Whether a price still holds."""

    CURRENT = "current"
    HISTORICAL = "historical"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One list price.

    Attributes:
        region: Region or Local Zone; `*` is every Region with that market; empty where the source names none.
        subject: Instance type, UltraServer type or storage class; `eks` with the kind of support for a control plane.
        market: How it is bought.
        unit: `instance-hour`, `accelerator-hour`, `ultraserver-hour`, `GB-month` or `cluster-hour`.
        usd: US dollars per unit.
        as_of: ISO date, ISO interval (`2025-10/2026-06`, `../2025-06`) where no more is known, or `undated`.
        status: `current`, `historical` (superseded) or `snapshot` (a volatile Spot price).
        bound: `low` or `high` where the source gives a range over Regions, else empty.
        source: Where it comes from.
        verification: Such as `verified`, `single source`, `derived`, `single source, stale`, `unverified`.
        note: A restriction in the source's words, else empty.
    """

    region: str
    subject: str
    market: Market
    unit: str
    usd: Decimal
    as_of: str
    status: PriceStatus
    bound: str
    source: str
    verification: str
    note: str

    @property
    def has_source(self) -> bool:
        """Whether the source can be looked up: `general knowledge` is no source."""
        return self.source != _NO_SOURCE


def prices_of(
    subject: str,
    *,
    region: str | None = None,
    market: Market | str | None = None,
    unit: str | None = None,
    current_only: bool = True,
) -> tuple[Price, ...]:
    """Prices of a subject, newest first.

    Args:
        subject: Instance type, UltraServer type or storage class.
        region: Region or Local Zone; prices of every Region count too. All places by default.
        market: How it is bought. All markets by default.
        unit: Such as `instance-hour`. All units by default.
        current_only: Leave out historical prices and Spot snapshots.
    """
    found = [
        price
        for price in _prices()
        if price.subject == subject
        and (region is None or price.region in (region, ANY_REGION))
        and (market is None or price.market == market)
        and (unit is None or price.unit == unit)
        and (not current_only or price.status is PriceStatus.CURRENT)
    ]
    return tuple(sorted(found, key=_date, reverse=True))


def newest_price(
    subject: str, region: str, *, market: Market | str = Market.ON_DEMAND, unit: str = "instance-hour"
) -> Price | None:
    """The newest current price, or None if no source gives one; otherwise as `prices_of`.

    A price of the Region itself goes before one that holds for every Region; a range is not a price.

    Example:
        >>> newest_price("p5.48xlarge", "us-east-1").usd
        Decimal('55.04')
    """
    found = prices_of(subject, region=region, market=market, unit=unit)
    exact = [price for price in found if not price.bound]
    return next((price for price in exact if price.region == region), next(iter(exact), None))


def _date(price: Price) -> str:
    """The earliest date that the price can be of, so that a vague date never beats an exact one."""
    start = price.as_of.partition("/")[0]
    return start if start[0].isdigit() else ""


@cache
def _prices() -> tuple[Price, ...]:
    sources = read_json("price_sources.json")
    with (DATA / "prices.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            record(Price, row, usd=Decimal(row["usd"]), source=sources[row["source"]]) for row in csv.DictReader(file)
        )
