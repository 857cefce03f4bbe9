"""What a cluster file costs: by the hour, by the day, to the end of the month, and once for blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from cdk_gpu_clusters.catalogue.prices import Price
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters.rules.cost import HOURS_PER_MONTH, Estimate, control_plane_hour, lustre_month
from cdk_gpu_clusters_stacks.plan import ClusterPlan, plan_cluster
from cdk_gpu_clusters_stacks.plan.rates import (
    NO_START,
    hours_of_terms,
    on_demand_hour,
    system_node_hour,
)
from cdk_gpu_clusters_stacks.spec import ClusterSpec, LustreSpec
from cdk_gpu_clusters_stacks.spec.capacity import utc_text
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet, planned_fleets

from .money import HOURS_PER_DAY, NOTHING, SECONDS_PER_HOUR, Usd, cents

PURCHASES = {
    CapacityKind.ON_DEMAND: "on demand",
    CapacityKind.SPOT: "Spot, at most",
    CapacityKind.RESERVATION: "reservation, used or not",
    CapacityKind.CAPACITY_BLOCK: "Capacity Block, paid in advance",
    CapacityKind.ULTRASERVER_BLOCK: "UltraServer block, paid in advance",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a cluster file with a price, or why it has none.

    Attributes:
        name: Such as `fleet trainers`, as `plan` calls it.
        purchase: How it is bought.
        usd_per_hour: What it costs for an hour, not rounded; None if that is unknown.
        prices: The list prices that this rests on.
        is_paid_in_advance: Whether it is paid once, when it is bought.
        ends_at: When it ends; None without an end.
        unknown: Why there is no price; empty if there is one.
    """

    name: str
    purchase: str
    usd_per_hour: tuple[Fraction, Fraction] | None
    prices: tuple[Price, ...] = ()
    is_paid_in_advance: bool = False
    ends_at: datetime | None = None
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCost:
    """What a part costs, in cents.

    Attributes:
        name: Such as `fleet trainers`.
        purchase: How it is bought.
        per_hour: For an hour; of a block, its share of an hour.
        per_day: For 24 hours.
        to_month_end: From the time of the forecast to the end of the month, or to its own end; None for what is paid in
            advance.
        in_advance: The price of the blocks of a fleet, once; None for what is paid by the hour.
        is_paid_in_advance: Whether it is paid once, when it is bought.
        ends_at: When it ends.
        prices: The list prices that this rests on.
        unknown: Amounts that are not known -> why.
    """

    name: str
    purchase: str
    per_hour: Usd | None
    per_day: Usd | None
    to_month_end: Usd | None
    in_advance: Usd | None
    is_paid_in_advance: bool
    ends_at: str | None
    prices: tuple[Price, ...]
    unknown: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a cluster file costs at list prices.

    Attributes:
        cluster: Name of the cluster.
        region: Its Region.
        at: Time of the forecast.
        month_ends_at: End of its month, in UTC.
        parts: What has a price, and what could have one.
        per_hour: All that is paid by the hour and has a price, for an hour: the sum of the lines; None if nothing
            has one.
        per_day: The same for 24 hours.
        to_month_end: The same to the end of the month.
        in_advance: All blocks that have a price, once.
        not_counted: What costs money and is in no sum -> why.
    """

    cluster: str
    region: str
    at: str
    month_ends_at: str
    parts: tuple[PartCost, ...]
    per_hour: Usd | None
    per_day: Usd | None
    to_month_end: Usd | None
    in_advance: Usd | None
    not_counted: Mapping[str, str]


def forecast_cost(spec: ClusterSpec, at: datetime) -> Forecast:
    """What a cluster file costs from a time on, if everything in it is there.

    Args:
        spec: The cluster file.
        at: The time, with its time zone.

    Example:
        >>> from cdk_gpu_clusters_stacks.spec import load_cluster
        >>> spec = load_cluster("examples/p5-capacity-block.yaml")
        >>> forecast_cost(spec, datetime(2026, 12, 1, tzinfo=UTC)).in_advance
        Usd(low=Decimal('223254.53'), high=Decimal('223254.53'))
    """
    plan, views = plan_cluster(spec, ()), planned_fleets(spec)
    ends_at = end_of_month(at)
    parts = tuple(parts_of(spec, plan, views))
    fleets = {f"fleet {view.name}": view for view in views}
    costs = tuple(_cost_of(part, fleets.get(part.name), at, ends_at) for part in parts)
    running = [one for one in costs if not one.is_paid_in_advance]
    named = {part.name for part in parts}
    missing = {cost.name: why for cost in costs for why in cost.unknown.values()}
    others = {name: why for name, why in plan.cost.missing.items() if name not in named}
    return Forecast(
        cluster=spec.name,
        region=spec.region,
        at=utc_text(at),
        month_ends_at=utc_text(ends_at),
        parts=costs,
        per_hour=_sum(one.per_hour for one in running),
        per_day=_sum(one.per_day for one in running),
        to_month_end=_sum(one.to_month_end for one in running),
        in_advance=_sum(one.in_advance for one in costs if one.is_paid_in_advance),
        not_counted={**missing, **others},
    )


def end_of_month(at: datetime) -> datetime:
    """The end of the month of a time, in UTC: a month of AWS's bills.

    Example:
        >>> end_of_month(datetime(2026, 12, 31, 23, tzinfo=UTC)).isoformat()
        '2027-01-01T00:00:00+00:00'
    """
    at = at.astimezone(UTC)
    return datetime(at.year + at.month // 12, at.month % 12 + 1, 1, tzinfo=UTC)


def parts_of(spec: ClusterSpec, plan: ClusterPlan, views: Sequence[PlannedFleet]) -> Iterator[Part]:
    """The parts of a cluster file that have a price, or could have one, in the order of the plan."""
    for view in views:
        yield _fleet(view, spec.region)
    for name, store in spec.data.items():
        cost = next(one.cost for one in plan.stores if one.name == name)
        if isinstance(store, LustreSpec):
            month = lustre_month(store.lustre.sizing, region=spec.region)
            yield _by_the_hour(f"store {name}", "storage", month, Fraction(1, HOURS_PER_MONTH))
        elif cost is not None:
            yield Part(
                name=f"store {name}", purchase="storage", usd_per_hour=None, unknown=cost.unknown["usd_per_month"]
            )
    if plan.kubernetes is not None and plan.kubernetes.system_nodes is not None:
        yield _by_the_hour("control plane, in standard support", "Amazon EKS", control_plane_hour())
        nodes = plan.kubernetes.system_nodes.node_count
        yield _by_the_hour("system nodes", "on demand", system_node_hour(spec), Fraction(nodes))
    for name, machine in plan.machines.items():
        yield _by_the_hour(
            name, "on demand", on_demand_hour(machine.instance_type, spec.region), Fraction(machine.node_count)
        )


def _fleet(view: PlannedFleet, region: str) -> Part:
    rate, terms = view.node_hour(region), view.plan.terms
    least, most = view.paid_nodes
    return Part(
        name=f"fleet {view.name}",
        purchase=PURCHASES[terms.kind],
        usd_per_hour=_times(rate, Fraction(least), Fraction(most)),
        prices=rate.prices,
        is_paid_in_advance=terms.kind.is_block,
        ends_at=terms.ends_at,
        unknown=rate.reason,
    )


def _by_the_hour(name: str, purchase: str, rate: Estimate, number: Fraction = Fraction(1)) -> Part:
    return Part(
        name=name,
        purchase=purchase,
        usd_per_hour=_times(rate, number, number),
        prices=rate.prices,
        unknown=rate.reason,
    )


def _times(rate: Estimate, least: Fraction, most: Fraction) -> tuple[Fraction, Fraction] | None:
    if rate.low is None or rate.high is None:
        return None
    return Fraction(rate.low) * least, Fraction(rate.high) * most


def _cost_of(part: Part, view: PlannedFleet | None, at: datetime, month_ends_at: datetime) -> PartCost:
    """The amounts of a part; those of a block need its fleet."""
    advance, unknown = None, {} if part.usd_per_hour else {"per_hour": part.unknown}
    if part.is_paid_in_advance and view is not None and part.usd_per_hour is not None:
        hours = hours_of_terms(view.plan.terms, view.spec.maximum_nodes)
        if hours is None:
            unknown = {"in_advance": NO_START}
        else:
            advance = _amount(part, hours)
    until = min(part.ends_at or month_ends_at, month_ends_at)
    left = Fraction(max(int((until - at).total_seconds()), 0), SECONDS_PER_HOUR)
    return PartCost(
        name=part.name,
        purchase=part.purchase,
        per_hour=_amount(part, Fraction(1)),
        per_day=_amount(part, Fraction(HOURS_PER_DAY)),
        to_month_end=None if part.is_paid_in_advance else _amount(part, left),
        in_advance=advance,
        is_paid_in_advance=part.is_paid_in_advance,
        ends_at=None if part.ends_at is None else utc_text(part.ends_at),
        prices=part.prices,
        unknown=unknown,
    )


def _amount(part: Part, hours: Fraction) -> Usd | None:
    if part.usd_per_hour is None:
        return None
    low, high = part.usd_per_hour
    return Usd(cents(low * hours), cents(high * hours))


def _sum(amounts: Iterable[Usd | None]) -> Usd | None:
    """The sum of what is known; None without any: an unknown amount is not zero."""
    known = [one for one in amounts if one is not None]
    return sum(known, NOTHING) if known else None
