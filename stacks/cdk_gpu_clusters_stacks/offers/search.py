"""Ask many Regions at once what they offer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from cdk_gpu_clusters.catalogue.prices import newest_price

from .clients import Ec2Clients, problem_of
from .model import BlockOffer, CapacityRequest, Market, Problem, ZoneOffer

#: Calls side by side.
_CALLS = 16
_LINUX = "Linux/UNIX"
_Found = BlockOffer | ZoneOffer | Problem


def search_market(
    request: CapacityRequest,
    regions: Iterable[str],
    clients: Ec2Clients,
    *,
    now: datetime,
    on_answer: Callable[[], None] = lambda: None,
) -> Market:
    """Ask every Region for blocks, on-demand zones and spot prices, side by side; what fails is a problem of its own.

    Args:
        request: What is requested.
        regions: Regions to ask.
        clients: Makes the EC2 client of a Region.
        now: The time; spot prices are those that hold then.
        on_answer: Called after each answer, for a progress bar.

    Raises:
        NoCredentials: If there are no credentials that are good.
    """
    asked = list(dict.fromkeys(regions))
    with ThreadPoolExecutor(_CALLS) as pool:
        calls = [
            pool.submit(_ask, ask, request, region, clients, now)
            for region in asked
            for ask in (_blocks, _on_demand, _spot)
        ]
        scores = pool.submit(_scores, request, asked, clients)
        everything: list[Future[Any]] = [*calls, scores]
        for _ in as_completed(everything):
            on_answer()
        found = [one for call in calls for one in call.result()]
        score_of, score_problems = scores.result()
    zones = [one for one in found if isinstance(one, ZoneOffer)]
    return Market(
        request=request,
        blocks=tuple(sorted((one for one in found if isinstance(one, BlockOffer)), key=_cheapest)),
        zones=tuple(
            sorted(_with_scores(zones, score_of), key=lambda one: (one.market, one.region, one.zone))
        ),
        problems=tuple(
            sorted(
                [*(one for one in found if isinstance(one, Problem)), *score_problems],
                key=lambda one: (one.region, one.action),
            )
        ),
    )


def calls_of(regions: Iterable[str]) -> int:
    """How many answers a search over Regions waits for."""
    return 3 * len(list(dict.fromkeys(regions))) + 1


def blocks_in(
    request: CapacityRequest, region: str, clients: Ec2Clients
) -> tuple[list[BlockOffer], list[Problem]]:
    """The Capacity Blocks that one Region offers.

    Args:
        request: What is requested.
        region: Region to ask.
        clients: Makes the EC2 client of a Region.
    """
    found = _ask(_blocks, request, region, clients, None)
    return (
        sorted((one for one in found if isinstance(one, BlockOffer)), key=_cheapest),
        [one for one in found if isinstance(one, Problem)],
    )


def _cheapest(one: BlockOffer) -> tuple[Decimal, datetime, str]:
    return one.price, one.starts_at, one.id


def _ask(
    ask: Callable[[CapacityRequest, str, Any, datetime | None], Iterator[_Found]],
    request: CapacityRequest,
    region: str,
    clients: Ec2Clients,
    now: datetime | None,
) -> list[_Found]:
    try:
        return list(ask(request, region, clients(region), now))
    except Exception as error:  # noqa: BLE001 - every failure of a call becomes a problem with its reason
        return [problem_of(error, region=region, action=_ACTIONS[ask])]


def _blocks(request: CapacityRequest, region: str, client: Any, _now: datetime | None) -> Iterator[_Found]:
    asked: dict[str, Any] = {
        "InstanceType": request.instance_type,
        "InstanceCount": request.count,
        "CapacityDurationHours": request.hours,
    }
    if request.starts_after is not None:
        asked["StartDateRange"] = request.starts_after
    if request.ends_before is not None:
        asked["EndDateRange"] = request.ends_before
    pages = client.get_paginator("describe_capacity_block_offerings").paginate(**asked)
    for page in pages:
        for row in page.get("CapacityBlockOfferings", ()):
            yield BlockOffer(
                id=row["CapacityBlockOfferingId"],
                region=region,
                zone=row["AvailabilityZone"],
                instance_type=row["InstanceType"],
                count=row["InstanceCount"],
                hours=row["CapacityBlockDurationHours"],
                starts_at=row["StartDate"],
                ends_at=row["EndDate"],
                price=Decimal(row["UpfrontFee"]),
                currency=row["CurrencyCode"],
            )


def _on_demand(request: CapacityRequest, region: str, client: Any, _now: datetime | None) -> Iterator[_Found]:
    price = newest_price(request.instance_type, region)
    pages = client.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": [request.instance_type]}],
    )
    for page in pages:
        for row in page.get("InstanceTypeOfferings", ()):
            yield ZoneOffer(
                region=region,
                zone=row["Location"],
                market="on-demand",
                usd_per_hour=None if price is None else price.usd,
                price_source="no source gives one" if price is None else f"list price of {price.as_of}",
            )


def _spot(request: CapacityRequest, region: str, client: Any, now: datetime | None) -> Iterator[_Found]:
    pages = client.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=[request.instance_type], ProductDescriptions=[_LINUX], StartTime=now, EndTime=now
    )
    newest: dict[str, dict[str, Any]] = {}
    for page in pages:
        for row in page.get("SpotPriceHistory", ()):
            zone = row["AvailabilityZone"]
            if zone not in newest or row["Timestamp"] > newest[zone]["Timestamp"]:
                newest[zone] = row
    for zone, row in newest.items():
        yield ZoneOffer(
            region=region,
            zone=zone,
            zone_id=row.get("AvailabilityZoneId"),
            market="spot",
            usd_per_hour=Decimal(row["SpotPrice"]),
            price_source=f"spot price since {row['Timestamp']:%Y-%m-%d %H:%M}Z",
        )


_ACTIONS: dict[Any, str] = {
    _blocks: "ec2:DescribeCapacityBlockOfferings",
    _on_demand: "ec2:DescribeInstanceTypeOfferings",
    _spot: "ec2:DescribeSpotPriceHistory",
}
_SCORES = "ec2:GetSpotPlacementScores"
#: Most Regions of one call for placement scores.
_SCORE_REGIONS = 10


def _scores(
    request: CapacityRequest, regions: list[str], clients: Ec2Clients
) -> tuple[dict[tuple[str, str], int], list[Problem]]:
    """Placement scores by Region and zone id; they are asked in the first Region, for all."""
    found: dict[tuple[str, str], int] = {}
    for begin in range(0, len(regions), _SCORE_REGIONS):
        part = regions[begin : begin + _SCORE_REGIONS]
        try:
            pages = (
                clients(regions[0])
                .get_paginator("get_spot_placement_scores")
                .paginate(
                    InstanceTypes=[request.instance_type],
                    TargetCapacity=request.count,
                    SingleAvailabilityZone=True,
                    RegionNames=part,
                )
            )
            for page in pages:
                for row in page.get("SpotPlacementScores", ()):
                    found[row["Region"], row["AvailabilityZoneId"]] = row["Score"]
        except Exception as error:  # noqa: BLE001 - see _ask
            return found, [problem_of(error, region=regions[0], action=_SCORES)]
    return found, []


def _with_scores(zones: list[ZoneOffer], scores: dict[tuple[str, str], int]) -> Iterator[ZoneOffer]:
    """The zones with their scores, and a row of its own for each score of a zone without a price."""
    left = dict(scores)
    for one in zones:
        key = (one.region, one.zone_id or "")
        yield replace(one, spot_score=left.pop(key)) if one.market == "spot" and key in left else one
    for (region, zone_id), score in left.items():
        yield ZoneOffer(
            region=region,
            zone=zone_id,
            zone_id=zone_id,
            market="spot",
            usd_per_hour=None,
            price_source="no price",
            spot_score=score,
        )
