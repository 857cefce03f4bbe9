"""Capacity on offer in an account's Regions, side by side, and buying a Capacity Block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters.catalogue.prices import newest_price
from cdk_gpu_clusters_stacks.aws_errors import Trouble, aws_error

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config


# What is asked for, and what is on offer.

#: Currency of every limit on a price.
PRICE_CURRENCY = "USD"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRequest:
    """What is asked for.

    Attributes:
        starts_after: Earliest start of a block; now by default.
        ends_before: Latest end of a block; as far ahead as EC2 looks by default.
    """

    instance_type: str
    count: int
    hours: int
    starts_after: datetime | None = None
    ends_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSegment:
    """A part of a Capacity Block with a zone, a type and a schedule of its own; EC2 makes a reservation of each."""

    zone: str
    instance_type: str
    count: int
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOffer:
    """A Capacity Block, or a training plan, that can be bought.

    Attributes:
        id: Id of the offering; it is good for a short while.
        hours: Its full hours, of the longest segment of a block if there are several.
        minutes: Minutes beyond these hours.
        price: The full price, paid up front.
        segments: Its parts, in the order of their starts; one if EC2 names none.
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
    segments: tuple[BlockSegment, ...]
    minutes: int = 0

    @property
    def duration(self) -> timedelta:
        """How long it is, by the hours and minutes of the offer."""
        return timedelta(hours=self.hours, minutes=self.minutes)

    @property
    def price_per_instance_hour(self) -> Decimal:
        """Price of one instance for an hour."""
        seconds = sum((one.ends_at - one.starts_at).total_seconds() * one.count for one in self.segments)
        return self.price * 3600 / Decimal(seconds)

    def costs_at_most(self, limit_usd: Decimal) -> bool:
        """Whether it is within a limit; one in another currency never is."""
        return self.currency == PRICE_CURRENCY and 0 <= self.price <= limit_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneOffer:
    """A zone that offers the type without a block, on demand or as spot: whether there is room is unknown.

    Attributes:
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
    """

    region: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """All that is on offer.

    Attributes:
        blocks: Capacity Blocks, the cheapest first, then the earliest.
        zones: Zones that offer the type on demand or as spot.
        problems: What could not be asked.
    """

    request: CapacityRequest
    blocks: tuple[BlockOffer, ...]
    zones: tuple[ZoneOffer, ...]
    problems: tuple[Problem, ...]


# Clients of AWS APIs: with retries and deadlines, and with their errors in words.

#: Makes the EC2 client of a Region.
Ec2Clients = Callable[[str], Any]

_SERVER_FAULT = 500


class NoCredentials(Exception):
    """There are no credentials, or they are no longer good."""


def ec2_clients(session: boto3.Session, *, attempts: int = 6, service: str = "ec2") -> Ec2Clients:
    """Clients that retry what is throttled, and give up on a Region that does not answer.

    Args:
        service: `sagemaker` for training plans.
        attempts: How often a call is tried; 1 for one that must not be made twice.
    """
    from botocore.config import Config

    config = Config(retries={"mode": "standard", "total_max_attempts": attempts}, connect_timeout=5, read_timeout=30)
    return lambda region: _client(session, service, region, config)


def _client(session: boto3.Session, service: str, region: str, config: Config) -> Any:
    make: Any = session.client  # its overloads take literals
    return make(service, region_name=region, config=config)


def is_refusal(error: Exception) -> bool:
    """Whether an error is an API's answer that it did nothing, and not a lost answer or a fault of its own."""
    from botocore.exceptions import ClientError, EndpointConnectionError

    if isinstance(error, ClientError):
        return bool(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400) < _SERVER_FAULT)
    return isinstance(error, EndpointConnectionError)


def problem_of(error: Exception, *, region: str, action: str) -> Problem:
    """An error of an API in words.

    Raises:
        NoCredentials: If there are none that are good: no other call would fare better.
    """
    found = aws_error(error)
    if found.trouble is Trouble.NO_CREDENTIALS:
        raise NoCredentials(f"no AWS credentials: {found.message}") from error
    # EC2 says AuthFailure of a Region that is not enabled.
    not_enabled = found.trouble is Trouble.REGION_OFF or found.code == "AuthFailure"
    if found.trouble in (Trouble.EXPIRED, Trouble.UNKNOWN_CREDENTIALS) and not not_enabled:
        raise NoCredentials(f"the AWS credentials are not good: {found.code}: {found.message}") from error
    if found.trouble is Trouble.DENIED:
        reason = f"permission {action} is missing"
    elif found.trouble is Trouble.NO_ENDPOINT:
        reason = "no endpoint answers: no such Region, or no network"
    elif not_enabled:
        reason = "the Region is not enabled for this account"
    elif found.trouble is Trouble.NOT_OFFERED:
        reason = f"not offered in this Region ({found.code})"
    else:
        reason = f"{found.code}: {found.message}" if found.code else found.message
    return Problem(region=region, action=action, reason=reason)


# Ask many Regions at once what they offer.

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
        zones=tuple(sorted(_with_scores(zones, score_of), key=lambda one: (one.market, one.region, one.zone))),
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


def blocks_in(request: CapacityRequest, region: str, clients: Ec2Clients) -> tuple[list[BlockOffer], list[Problem]]:
    """The Capacity Blocks that one Region offers."""
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
        yield from (_block(row, region) for row in page.get("CapacityBlockOfferings", ()))


def _block(row: dict[str, Any], region: str) -> BlockOffer:
    """An offering; EC2 lists segments in `CapacityBlockOfferingSegments` (EC2 API model of botocore 1.44.5)."""
    parts = row.get("CapacityBlockOfferingSegments") or [row]
    segments = sorted(
        (
            BlockSegment(
                zone=part["AvailabilityZone"],
                instance_type=part["InstanceType"],
                count=part["InstanceCount"],
                starts_at=part["StartDate"],
                ends_at=part["EndDate"],
            )
            for part in parts
        ),
        key=lambda one: (one.starts_at, one.zone),
    )
    first, longest = segments[0], max(parts, key=lambda one: one["CapacityBlockDurationHours"])
    return checked_offer(
        BlockOffer(
            id=row["CapacityBlockOfferingId"],
            region=region,
            zone=row.get("AvailabilityZone") or first.zone,
            instance_type=row.get("InstanceType") or first.instance_type,
            count=row.get("InstanceCount") or first.count,
            hours=longest["CapacityBlockDurationHours"],
            minutes=longest.get("CapacityBlockDurationMinutes", 0),
            starts_at=row.get("StartDate") or first.starts_at,
            ends_at=row.get("EndDate") or max(one.ends_at for one in segments),
            price=checked_price(row["UpfrontFee"]),
            currency=row["CurrencyCode"],
            segments=tuple(segments),
        )
    )


def checked_offer(offer: BlockOffer) -> BlockOffer:
    """The offer, if its values are what the API documents.

    Args:
        offer: The offer.

    Raises:
        TypeError: If they are not.
    """
    texts = (offer.id, offer.zone, offer.instance_type, offer.currency, *_values(offer, "zone", "instance_type"))
    numbers = (offer.count, offer.hours, offer.minutes, *_values(offer, "count"))
    dates = (offer.starts_at, offer.ends_at, *_values(offer, "starts_at", "ends_at"))
    for values, kind in ((texts, str), (numbers, int), (dates, datetime)):
        for value in values:
            if type(value) is not kind:
                raise TypeError(f"AWS answered {value!r}, not {kind.__name__}")
    return offer


def _values(offer: BlockOffer, *names: str) -> Iterator[Any]:
    return (getattr(segment, name) for segment in offer.segments for name in names)


def checked_price(text: Any) -> Decimal:
    """A price of an API as a number.

    Raises:
        ValueError: If it is none.
    """
    price = Decimal(text)
    if not price.is_finite():
        raise ValueError(f"AWS answered a price of {price}")
    return price


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
                zone=str(row["Location"]),
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
            zone=str(zone),
            zone_id=str(row["AvailabilityZoneId"]) if "AvailabilityZoneId" in row else None,
            market="spot",
            usd_per_hour=checked_price(row["SpotPrice"]),
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
                    found[str(row["Region"]), str(row["AvailabilityZoneId"])] = int(row["Score"])
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


# Ask again until a Capacity Block is on offer, at intervals that grow.

FIRST_INTERVAL_SECONDS = 30.0
LONGEST_INTERVAL_SECONDS = 900.0
GROWTH = 1.5


def watch_blocks(
    look: Callable[[], Market],
    *,
    most_seconds: float,
    max_price: Decimal | None,
    sleep: Callable[[float], None],
    on_wait: Callable[[float], None] = lambda _: None,
) -> list[BlockOffer]:
    """Look until a block is on offer; the first time at once.

    Args:
        most_seconds: When to give up, counted in the intervals that were waited.
        max_price: Limit in USD: blocks that cost more, or in another currency, do not count.
        on_wait: Called before each interval, with its length in seconds.

    Returns:
        The blocks that count, the cheapest first; empty if there was none in all that time.
    """
    waited, interval = 0.0, FIRST_INTERVAL_SECONDS
    while True:
        found = [one for one in look().blocks if max_price is None or one.costs_at_most(max_price)]
        if found or waited + interval > most_seconds:
            return found
        on_wait(interval)
        sleep(interval)
        waited += interval
        interval = min(interval * GROWTH, LONGEST_INTERVAL_SECONDS)


# Buy a Capacity Block: found again first, so that its price is known; paid up front, and never given back. What
# EC2 answers is compared with the request, since a wrong purchase cannot be undone.

_RESERVATION_ID = re.compile(r"cr-[0-9a-f]{8,40}")
# Blocks and plans end at 11:30 UTC, so that one which starts at once is shorter or longer by a part of a day.
_TOLERANCE = timedelta(days=1)


def faults_of_offer(offer: BlockOffer, request: CapacityRequest) -> list[str]:
    """How an offer differs from the request; empty if it is what was asked for."""
    return [*_of_instances(offer, request), *_of_dates(offer, request), *_of_zones(offer), *_of_price(offer)]


def _of_instances(offer: BlockOffer, request: CapacityRequest) -> Iterator[str]:
    types = {offer.instance_type, *(one.instance_type for one in offer.segments)}
    if types != {request.instance_type}:
        yield f"it is of {', '.join(sorted(types))}, not of {request.instance_type}"
    seconds = sum((one.ends_at - one.starts_at).total_seconds() * one.count for one in offer.segments)
    if len(offer.segments) == 1:
        if {offer.count, offer.segments[0].count} != {request.count}:
            yield f"it has {offer.segments[0].count} instances, not {request.count}"
    elif seconds <= (timedelta(hours=request.hours) - _TOLERANCE).total_seconds() * request.count:
        yield f"its segments have fewer instance hours than {request.count} instances for {request.hours} h"


def _of_dates(offer: BlockOffer, request: CapacityRequest) -> Iterator[str]:
    if any(one.count < 1 or one.ends_at <= one.starts_at for one in offer.segments):
        yield "a part of it has no instances, or ends before it starts"
    length, wanted = offer.ends_at - offer.starts_at, timedelta(hours=request.hours)
    if abs(offer.duration - wanted) >= _TOLERANCE:
        minutes = f" and {offer.minutes} minutes" if offer.minutes else ""
        yield f"it is for {offer.hours} hours{minutes}, not for {request.hours}"
    if len(offer.segments) == 1 and abs(length - wanted) > _TOLERANCE:
        yield f"it runs from {_minute(offer.starts_at)} to {_minute(offer.ends_at)}"
    if request.starts_after and offer.starts_at < request.starts_after:
        yield f"it starts at {_minute(offer.starts_at)}, before {_minute(request.starts_after)}"
    if request.ends_before and offer.ends_at > request.ends_before:
        yield f"it ends at {_minute(offer.ends_at)}, after {_minute(request.ends_before)}"


def _of_zones(offer: BlockOffer) -> Iterator[str]:
    zone = re.compile(rf"{re.escape(offer.region)}(-[a-z]+-\d+)?[a-z]")
    for one in dict.fromkeys((offer.zone, *(one.zone for one in offer.segments))):
        if not zone.fullmatch(one):
            yield f"its zone {one!r} is not in {offer.region}"


def _of_price(offer: BlockOffer) -> Iterator[str]:
    if offer.currency != PRICE_CURRENCY:
        yield f"it costs {offer.price} {offer.currency}, not {PRICE_CURRENCY}"
    if offer.price < 0:
        yield f"its price is {offer.price}"


def faults_of_purchase(offer: BlockOffer, reservations: Sequence[Mapping[str, Any]]) -> list[str]:
    """How bought reservations differ from the offer. What an older API does not describe is not compared."""
    faults = []
    for one in reservations:
        name = str(one.get("CapacityReservationId", ""))
        if not _RESERVATION_ID.fullmatch(name):
            faults.append(f"{name!r} is no id of a reservation")
        if not any(_may_be_of(one, segment) for segment in offer.segments):
            found = ", ".join(str(one[key]) for key in _SEGMENT_KEYS if key in one)
            faults.append(f"{name!r} is no part of the offer: {found}")
    if not 1 <= len(reservations) <= len(offer.segments):
        faults.append(f"EC2 names {len(reservations)} reservations, for an offer of {len(offer.segments)}")
    return faults


_SEGMENT_KEYS = ("InstanceType", "TotalInstanceCount", "AvailabilityZone", "StartDate", "EndDate")


def _may_be_of(reservation: Mapping[str, Any], segment: BlockSegment) -> bool:
    values = (segment.instance_type, segment.count, segment.zone, segment.starts_at, segment.ends_at)
    for key, expected in zip(_SEGMENT_KEYS, values, strict=True):
        found = reservation.get(key, expected)
        if isinstance(expected, datetime) and isinstance(found, datetime):
            # It may start a little later than it was offered.
            if abs(found - expected) > timedelta(hours=1):
                return False
        elif found != expected:
            return False
    return True


def buy_block(offer: BlockOffer, clients: Ec2Clients, *, cluster: str | None = None) -> list[dict[str, Any]]:
    """Buy a block; EC2 charges its full price at once.

    Returns:
        The reservations, as EC2 describes them: one for each segment. An older API names the first of them only.

    Raises:
        TypeError: If the answer describes none.
    """
    asked: dict[str, Any] = {"CapacityBlockOfferingId": offer.id, "InstancePlatform": "Linux/UNIX"}
    if cluster is not None:
        tag = {"Key": "Name", "Value": cluster}
        asked["TagSpecifications"] = [{"ResourceType": "capacity-reservation", "Tags": [tag]}]
    answer = clients(offer.region).purchase_capacity_block(**asked)
    found = answer.get("CapacityReservations") or [answer["CapacityReservation"]]
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise TypeError("the answer describes no reservation")
    return found


def cluster_file_lines(offer: BlockOffer, reservations: Sequence[dict[str, Any]]) -> str:
    """The lines of a cluster file for a block that was bought: a fleet for each of its reservations.

    The reservations of segments may lie in several zones, and a cluster lies in one: fleets of another zone than the
    first are comments.
    """
    if len(reservations) == 1:
        parts = [(str(reservations[0]["CapacityReservationId"]), offer.segments[0])]
    else:
        parts = [(str(one["CapacityReservationId"]), _segment_of(one)) for one in reservations]
    zone = parts[0][1].zone
    lines = [f"network: {{ availability_zone: {zone} }}", "training:", "  fleets:"]
    for index, (reservation_id, part) in enumerate(parts):
        name = "workers" if index == 0 else f"workers-{index + 1}"
        mark = "" if part.zone == zone else f"# in {part.zone}, for another cluster: "
        lines += [f"{mark}{line}" for line in _fleet_lines(name, reservation_id, part)]
    return "\n".join([*lines, ""])


def _segment_of(reservation: dict[str, Any]) -> BlockSegment:
    return BlockSegment(
        zone=reservation["AvailabilityZone"],
        instance_type=reservation["InstanceType"],
        count=reservation["TotalInstanceCount"],
        starts_at=reservation["StartDate"],
        ends_at=reservation["EndDate"],
    )


def _fleet_lines(name: str, reservation_id: str, part: BlockSegment) -> Iterator[str]:
    yield f"    {name}:"
    yield f"      instance_type: {part.instance_type}"
    yield f"      nodes: {part.count}"
    yield "      capacity:"
    yield f"        capacity_block: {reservation_id}"
    yield f"        starts_at: {_minute(part.starts_at)}"
    yield f"        ends_at: {_minute(part.ends_at)}"


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%MZ}"
