"""What an instance or a file system costs at list price: a range, and the prices that it rests on.

Nothing is guessed: if no source gives a price, there is none, and a sentence states that. List prices estimate; they
know no discounts, Savings Plans or taxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from cdk_gpu_clusters.catalogue import InstanceType, UltraServer
from cdk_gpu_clusters.catalogue.prices import Market, Price, PriceStatus, newest_price, prices_of
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters.rules.lustre import LustreSizing
from cdk_gpu_clusters.rules.zones import read_zone

#: Hours of a month in AWS's price lists (AWS Pricing Calculator: 730 hours in a month).
HOURS_PER_MONTH = 730


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A price, or why there is none.

    Attributes:
        low, high: US dollars, equal but where the source gives a range; None where no source gives a price.
        prices: What they rest on; without a price, what is known beside it.
        is_ceiling: Whether it is the most that can be paid, and not what will be.
        reason: Why there is no price; empty where there is one.
    """

    low: Decimal | None
    high: Decimal | None
    prices: tuple[Price, ...] = ()
    is_ceiling: bool = False
    reason: str = ""


def node_hour(
    instance_type: InstanceType,
    kind: CapacityKind,
    *,
    region: str,
    availability_zone: str | None = None,
    node_count: int = 1,
    max_price_usd_per_hour: float | None = None,
) -> Estimate:
    """What one instance costs for an hour.

    Args:
        instance_type: Its type.
        kind: How it is bought. A reservation bills the on-demand price, used or not.
        region: AWS Region.
        availability_zone: Zone, where it is known: Local Zones have prices of their own.
        node_count: Instances of the fleet, which tell one UltraServer from another.
        max_price_usd_per_hour: Limit of Spot instances.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> node_hour(instance_type("p5.48xlarge"), CapacityKind.CAPACITY_BLOCK, region="us-east-1").low
        Decimal('41.528')
    """
    place = _place(region, availability_zone)
    if kind is CapacityKind.ULTRASERVER_BLOCK:
        return _ultraserver(instance_type, place, node_count)
    if kind is CapacityKind.CAPACITY_BLOCK:
        return _list_price(instance_type.name, place, Market.CAPACITY_BLOCK)
    if kind is CapacityKind.SPOT:
        return _spot(instance_type.name, place, max_price_usd_per_hour)
    return _list_price(instance_type.name, place, Market.ON_DEMAND)


def ultraserver_of(instance_type: InstanceType, node_count: int) -> UltraServer | None:
    """The largest UltraServer whose instances divide this number; None for other types and numbers.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> ultraserver_of(instance_type("p6e-gb200.36xlarge"), 9).name
        'u-p6e-gb200x36'
    """
    fitting = [one for one in instance_type.ultraservers if node_count % one.instance_count == 0]
    return max(fitting, key=lambda one: one.instance_count, default=None) if node_count else None


def control_plane_hour(*, extended_support: bool = False) -> Estimate:
    """What the control plane of a cluster of Amazon EKS costs for an hour.

    Args:
        extended_support: Whether its version of Kubernetes has left standard support.

    Example:
        >>> control_plane_hour().low, control_plane_hour(extended_support=True).low
        (Decimal('0.10'), Decimal('0.60'))
    """
    subject = f"eks {'extended' if extended_support else 'standard'} support"
    prices = prices_of(subject, market=Market.CONTROL_PLANE, unit="cluster-hour")
    if not prices:
        return _unknown(f"no source gives the price of {subject}")
    return Estimate(low=prices[0].usd, high=prices[0].usd, prices=prices[:1])


def lustre_month(sizing: LustreSizing, *, region: str) -> Estimate:
    """What the storage of a file system costs for a month; backups and metadata operations are not counted.

    Example:
        >>> sizing = LustreSizing(storage_capacity_gib=2400, throughput_mb_per_s_per_tib=125)
        >>> lustre_month(sizing, region="us-east-1").low
        Decimal('348.000')
    """
    if sizing.is_tiering or sizing.storage_capacity_gib is None:
        return _unknown("Intelligent-Tiering bills what is stored and its throughput: no source gives the prices")
    rate = "" if sizing.is_scratch else f" {sizing.throughput_mb_per_s_per_tib} MBps/TiB"
    name = getattr(sizing.deployment_type, "value", sizing.deployment_type)
    subject = f"fsx-lustre {name} SSD{rate}"
    price = newest_price(subject, region, market=Market.STORAGE, unit="GB-month")
    if price is None:
        return _unknown(f"no source gives the price of {subject} in {region}")
    if not price.has_source:
        return _unknown(f"the catalogue's price of {subject} in {region} has no source")
    usd = price.usd * sizing.storage_capacity_gib
    return Estimate(low=usd, high=usd, prices=(price,))


def _place(region: str, zone: str | None) -> str:
    """What a price is looked up for: the Region, or the Local Zone."""
    found = None if zone is None else read_zone(zone)
    return zone if zone is not None and found is not None and found.is_local else region


def _list_price(subject: str, place: str, market: Market) -> Estimate:
    exact = newest_price(subject, place, market=market)
    if exact is not None:
        return Estimate(low=exact.usd, high=exact.usd, prices=(exact,))
    found = prices_of(subject, region=place, market=market, unit="instance-hour")
    bounds = [price for price in found if price.bound]
    if not bounds:
        return _unknown(f"no source gives the {market.value} price of {subject} in {place}")
    amounts = [price.usd for price in bounds]
    return Estimate(low=min(amounts), high=max(amounts), prices=tuple(sorted(bounds, key=lambda one: one.usd)))


def _spot(subject: str, place: str, limit: float | None) -> Estimate:
    """Spot prices move: only the most is known, which is the limit, and without one the on-demand price."""
    seen = _snapshots(subject)
    if limit is not None:
        usd = Decimal(str(limit))
        return Estimate(low=usd, high=usd, prices=seen, is_ceiling=True)
    most = _list_price(subject, place, Market.ON_DEMAND)
    if most.low is None:
        reason = f"spot prices move, and their limit, the on-demand price, is unknown: {most.reason}"
        return Estimate(low=None, high=None, prices=seen, reason=reason)
    return Estimate(low=most.low, high=most.high, prices=(*most.prices, *seen), is_ceiling=True)


def _snapshots(subject: str) -> tuple[Price, ...]:
    found = prices_of(subject, market=Market.SPOT, current_only=False)
    return tuple(price for price in found if price.status is PriceStatus.SNAPSHOT)[:1]


def _ultraserver(instance_type: InstanceType, place: str, node_count: int) -> Estimate:
    server = ultraserver_of(instance_type, node_count)
    if server is None:
        return _unknown(f"{node_count} x {instance_type.name} do not make up a number of UltraServers")
    price = newest_price(server.name, place, market=Market.CAPACITY_BLOCK, unit="accelerator-hour")
    if price is None:
        return _unknown(f"no source gives the price of {server.name} in {place}")
    usd = price.usd * server.accelerator_count / server.instance_count
    return Estimate(low=usd, high=usd, prices=(price,))


def _unknown(reason: str, prices: Sequence[Price] = ()) -> Estimate:
    return Estimate(low=None, high=None, prices=tuple(prices), reason=reason)
