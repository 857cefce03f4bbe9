"""Costs of fleets, stores and the cluster: rates of the rules, times nodes and hours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from cdk_gpu_clusters.catalogue.prices import Price
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.cost import HOURS_PER_MONTH, Estimate, lustre_month
from cdk_gpu_clusters.rules.homes import HomeStorage, OpenZfsHomes
from cdk_gpu_clusters.rules.lustre import LustreSizing
from cdk_gpu_clusters_stacks.spec.capacity import NewReservation, TrainingPlan
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from .model import (
    ClusterCost,
    FleetCost,
    FleetReport,
    KubernetesPlan,
    LoginNodesPlan,
    ParallelClusterPlan,
    PriceUsed,
    SlurmPlan,
    StoreCost,
    StorePlan,
    SystemNodesPlan,
    UsdRange,
)
from .rates import NO_START, hours_of_terms

_HOURS_PER_DAY = 24

_BILLING = {
    CapacityKind.ON_DEMAND: "by the second while nodes run",
    CapacityKind.SPOT: "by the second while nodes run, at a price that moves",
    CapacityKind.RESERVATION: "by the reservation, used or not",
    CapacityKind.CAPACITY_BLOCK: "up front, when the block is bought",
    CapacityKind.ULTRASERVER_BLOCK: "up front, when the block is bought",
}
_NO_RUN = {
    CapacityKind.ON_DEMAND: "no end is set: the fleet runs until it is deleted",
    CapacityKind.SPOT: "no end is set: the fleet runs until it is deleted",
    CapacityKind.RESERVATION: "the file does not say how long the reservation stays",
}
_TRAINING_PLAN = "up front, when the training plan is bought"
_NEW_RESERVATION = "from the deployment on, used or not, until the reservation ends or is deleted"


def fleet_cost(view: PlannedFleet, region: str) -> FleetCost:
    """What the instances of a fleet cost."""
    terms = view.plan.terms
    rate = view.node_hour(region)
    is_new, of_plan = isinstance(view.spec.capacity, NewReservation), isinstance(view.spec.capacity, TrainingPlan)
    hours, no_run = _run(view, terms)
    hourly = _times(rate, *view.paid_nodes)
    unknown = {"run_hours": no_run} if hours is None else {}
    if hourly is None:
        unknown |= dict.fromkeys(("usd_per_node_hour", "usd_per_hour", "usd_per_day"), rate.reason)
    run = None if hourly is None or hours is None else _scaled(hourly, hours)
    if run is None:
        unknown["usd_per_run"] = no_run if hours is None else rate.reason
    return FleetCost(
        usd_per_node_hour=_times(rate, 1, 1),
        usd_per_hour=hourly,
        usd_per_day=None if hourly is None else _scaled(hourly, _HOURS_PER_DAY),
        run_hours=hours,
        usd_per_run=run,
        is_ceiling=rate.is_ceiling,
        basis=_basis(rate, terms),
        billing=_NEW_RESERVATION if is_new else _TRAINING_PLAN if of_plan else _BILLING[terms.kind],
        prices=prices_used(rate.prices),
        unknown=unknown,
    )


def _basis(rate: Estimate, terms: CapacityTerms) -> str:
    """What a rate is."""
    if rate.low is None:
        return ""
    if not rate.is_ceiling:
        return "list price" if rate.low == rate.high else "list prices, by Region"
    if terms.max_price_usd_per_hour is not None:
        return "the limit in the file"
    return "the on-demand price, where spot requests without a limit end"


def _run(view: PlannedFleet, terms: CapacityTerms) -> tuple[float | None, str]:
    """Length of the run, and why it is not known."""
    if terms.kind.is_block:
        hours = hours_of_terms(terms, view.spec.maximum_nodes)
        return None if hours is None else float(hours), NO_START
    capacity = view.spec.capacity
    if isinstance(capacity, NewReservation):
        if capacity.new_reservation.unlimited:
            return None, "the reservation has no end: it bills until it is deleted"
        return None, "the reservation starts at the deployment, whose time is not in the file"
    if isinstance(capacity, TrainingPlan):
        return None, "the file does not say when the training plan starts and ends"
    return None, _NO_RUN[terms.kind] if terms.ends_at is None else "the file has an end, and no start"


def store_cost(sizing: LustreSizing, region: str) -> StoreCost:
    """What the storage of a file system costs."""
    month = lustre_month(sizing, region=region)
    if month.low is None:
        names = ("usd_per_month", "usd_per_hour", "usd_per_day")
        return StoreCost(prices=prices_used(month.prices), unknown=dict.fromkeys(names, month.reason))
    hour = month.low / HOURS_PER_MONTH
    return StoreCost(
        usd_per_month=usd_amount(month.low),
        usd_per_hour=usd_amount(hour),
        usd_per_day=usd_amount(hour * _HOURS_PER_DAY),
        prices=prices_used(month.prices),
    )


def home_cost(storage: HomeStorage | None) -> StoreCost | None:
    """What the storage of home directories costs: unknown, as the catalogue has no price of it."""
    if storage is None:
        return None
    name = "FSx for OpenZFS" if isinstance(storage, OpenZfsHomes) else "EFS"
    names = ("usd_per_month", "usd_per_hour", "usd_per_day")
    return StoreCost(prices=(), unknown=dict.fromkeys(names, f"no source gives the price of {name}"))


_NO_PRICE = "the catalogue has no price of it"


def cluster_cost(
    fleets: Sequence[FleetReport],
    stores: Sequence[StorePlan],
    kubernetes: KubernetesPlan | None = None,
    slurm: SlurmPlan | None = None,
    parallelcluster: ParallelClusterPlan | None = None,
    *,
    is_new_network: bool,
) -> ClusterCost:
    """All that has a price, together."""
    hourly, includes, missing = [], [], {}
    machines = [] if slurm is None else [("login nodes", slurm.login)]
    if parallelcluster is not None:
        machines += [("head node", parallelcluster.head_node), ("login nodes", parallelcluster.login)]
    for name, usd, why in _by_the_hour(fleets, stores, kubernetes, machines):
        if usd is None:
            missing[name] = why
        else:
            hourly.append(usd)
            includes.append(name)
    missing |= _never_counted(fleets, stores, is_new_network=is_new_network)
    if slurm is not None and slurm.stack_name is not None:
        missing["AWS PCS: controller, nodes under management, accounting"] = _NO_PRICE
    total = _sum(hourly)
    return ClusterCost(
        usd_per_hour=total,
        usd_per_day=None if total is None else _scaled(total, _HOURS_PER_DAY),
        usd_per_run=_sum([fleet.cost.usd_per_run for fleet in fleets if fleet.cost.usd_per_run is not None]),
        includes=tuple(includes),
        missing=missing,
    )


def _by_the_hour(
    fleets: Sequence[FleetReport],
    stores: Sequence[StorePlan],
    cluster: KubernetesPlan | None,
    machines: Sequence[tuple[str, LoginNodesPlan | None]],
) -> Iterator[tuple[str, UsdRange | None, str]]:
    """What bills by the hour: its name, what it costs, and why that is unknown."""
    for fleet in fleets:
        hour = fleet.cost.usd_per_hour
        most = ", at most" if hour is not None and fleet.cost.is_ceiling else ""
        yield f"fleet {fleet.name}{most}", hour, fleet.cost.unknown.get("usd_per_hour", "")
    found: list[tuple[str, StoreCost | KubernetesPlan | SystemNodesPlan | LoginNodesPlan]] = [
        (f"store {store.name}", store.cost) for store in stores if store.cost is not None
    ]
    if cluster is not None and cluster.system_nodes is not None:  # made here
        found += [("control plane, in standard support", cluster), ("system nodes", cluster.system_nodes)]
    found += [(name, nodes) for name, nodes in machines if nodes is not None]
    for name, cost in found:
        usd = cost.usd_per_hour
        yield name, None if usd is None else UsdRange(usd, usd), cost.unknown.get("usd_per_hour", "")


def _never_counted(
    fleets: Sequence[FleetReport], stores: Sequence[StorePlan], *, is_new_network: bool
) -> dict[str, str]:
    """What costs money besides, and has no price in the catalogue."""
    missing = {"root volumes": _NO_PRICE}
    if any(fleet.load_balancer for fleet in fleets):
        missing["load balancers"] = _NO_PRICE
    if any(store.checkpoints is not None for store in stores):
        missing["objects in S3"] = "by what is stored, which the file does not say"
    if is_new_network:
        missing["network: endpoints or NAT gateway, flow logs"] = _NO_PRICE
    return {**missing, "data transfer, metrics and logs": "by use, which the file does not say"}


def _times(rate: Estimate, least: int, most: int) -> UsdRange | None:
    if rate.low is None or rate.high is None:
        return None
    return UsdRange(usd_amount(rate.low * least), usd_amount(rate.high * most))


def _scaled(amount: UsdRange, factor: float) -> UsdRange:
    return UsdRange(
        usd_amount(Decimal(str(amount.low)) * Decimal(str(factor))),
        usd_amount(Decimal(str(amount.high)) * Decimal(str(factor))),
    )


def _sum(amounts: Sequence[UsdRange]) -> UsdRange | None:
    if not amounts:
        return None
    return UsdRange(
        usd_amount(sum((Decimal(str(one.low)) for one in amounts), Decimal(0))),
        usd_amount(sum((Decimal(str(one.high)) for one in amounts), Decimal(0))),
    )


def usd_amount(amount: Decimal) -> float:
    """To a hundredth of a cent: no float shows digits that no price list has."""
    return float(round(amount, 4))


def prices_used(prices: Sequence[Price]) -> tuple[PriceUsed, ...]:
    """Prices as a plan shows them."""
    return tuple(
        PriceUsed(
            subject=price.subject,
            region=price.region,
            market=price.market.value,
            unit=price.unit,
            usd=float(price.usd),
            as_of=price.as_of,
            source=price.source,
            verification=price.verification,
            note=price.note,
        )
        for price in prices
    )
