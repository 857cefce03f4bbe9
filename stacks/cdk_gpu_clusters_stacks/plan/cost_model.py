"""What a plan says about money: ranges in US dollars, each with the prices that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UsdRange:
    """US dollars from least to most: over the nodes of a fleet that scales, or between the bounds of a price."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceUsed:
    """One list price, as the catalogue has it.

    Attributes:
        subject: Instance type, UltraServer type, storage class, or `eks` with the kind of support.
        region: Region or Local Zone; `*` is every Region with that market, empty where the source names none.
        market: `on-demand`, `spot`, `capacity-block`, `storage` or `control-plane`.
        unit: `instance-hour`, `accelerator-hour`, `ultraserver-hour`, `GB-month` or `cluster-hour`.
        usd: US dollars per unit.
        as_of: Date, interval or `undated`.
        source: Where it comes from.
        verification: How well it is known, such as `verified` or `single source`.
        note: A restriction in the source's words, else empty.
    """

    subject: str
    region: str
    market: str
    unit: str
    usd: float
    as_of: str
    source: str
    verification: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCost:
    """What the instances of a fleet cost; root volumes, traffic and load balancers are not counted.

    Attributes:
        usd_per_node_hour: Of one node.
        usd_per_hour: Of the fleet, from its least to its most nodes that are paid for.
        usd_per_day: The same for 24 hours.
        run_hours: Length of the run: from the start to the end of a block; None where none is settled.
        usd_per_run: Of the run.
        is_ceiling: Whether the amounts are the most that spot instances can cost, and not an estimate.
        basis: What the rate is, in words, such as "list price" or "limit in the file".
        billing: When it is paid, in words, such as "paid up front, when the block is bought".
        prices: What the amounts rest on.
        unknown: Fields above that are None -> why.
    """

    usd_per_node_hour: UsdRange | None = None
    usd_per_hour: UsdRange | None = None
    usd_per_day: UsdRange | None = None
    run_hours: float | None = None
    usd_per_run: UsdRange | None = None
    is_ceiling: bool = False
    basis: str = ""
    billing: str = ""
    prices: tuple[PriceUsed, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCost:
    """What the storage of a file system costs; backups, traffic and metadata operations are not counted.

    Attributes:
        usd_per_month: Of its capacity.
        usd_per_hour: The same for an hour; a month has 730.
        usd_per_day: The same for 24 hours.
        prices: What the amounts rest on.
        unknown: Fields above that are None -> why.
    """

    usd_per_month: float | None = None
    usd_per_hour: float | None = None
    usd_per_day: float | None = None
    prices: tuple[PriceUsed, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCost:
    """All that has a price, together.

    Attributes:
        usd_per_hour: Fleets and stores while all of them are there; None where nothing has a price.
        usd_per_day: The same for 24 hours.
        usd_per_run: Runs of the blocks together; None where no fleet has a settled run.
        includes: What is in the sums, such as `fleet trainers`.
        missing: What costs money and is in no sum -> why.
    """

    usd_per_hour: UsdRange | None
    usd_per_day: UsdRange | None
    usd_per_run: UsdRange | None
    includes: tuple[str, ...]
    missing: Mapping[str, str]
