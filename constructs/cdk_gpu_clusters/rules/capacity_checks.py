"""What EC2 would refuse about capacity, or accept and then fail; reservations and blocks to make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.capacity import (
    DRAIN_BEFORE_END,
    BlockTerms,
    CapacityKind,
    CapacityTerms,
    TargetCapacityType,
)
from cdk_gpu_clusters.rules.placement import PlacementStrategy, check_group_of_reservation

_BLOCKS = 'AWS EC2 user guide, "Capacity Blocks for ML" (stored copy of 2026)'
_ODCR = 'AWS EC2 user guide, "On-Demand Capacity Reservations" (stored copy of 2026)'
_ASG = 'EC2 Auto Scaling guide, "Use Capacity Blocks" (stored copy of 2026)'

BLOCK_NEEDS_END = define_rule("GPU-CAP-001", "a Capacity Block needs an end time", source=_BLOCKS)
BLOCK_WITH_PLACEMENT_GROUP = define_rule(
    "GPU-CAP-002", "a launch into a Capacity Block names no placement group", source=_BLOCKS
)
TYPE_WITHOUT_BLOCKS = define_rule("GPU-CAP-003", "the type is sold as Capacity Blocks", source=_BLOCKS)
WINDOW_REVERSED = define_rule("GPU-CAP-004", "a block starts before it ends", source=_BLOCKS)
ONLY_ULTRASERVER = define_rule(
    "GPU-CAP-005", "UltraServer types come only as UltraServer Capacity Blocks", source=_BLOCKS
)
RESERVATION_ID = define_rule("GPU-CAP-006", "a reservation id has the form cr-<hex>", source=_ODCR)
RESERVATION_GROUP_ARN = define_rule(
    "GPU-CAP-007",
    "a reservation group is given as its resource-group ARN",
    source='AWS EC2 user guide, "Launch into a Capacity Reservation group"',
)
ULTRASERVER_NODES = define_rule(
    "GPU-CAP-008", "an UltraServer block is used in units of one UltraServer", source=_BLOCKS
)
ON_DEMAND_P = define_rule(
    "GPU-CAP-009",
    "large P types are rarely available on demand",
    source="aws/containers-roadmap 2204, aws/aws-parallelcluster 1216 (user reports)",
)
NO_SPOT = define_rule(
    "GPU-CAP-010", "the type is offered as spot", source="EC2 DescribeInstanceTypes, SupportedUsageClasses"
)
BLOCK_END_TIME = define_rule("GPU-CAP-011", "a Capacity Block ends at 11:30 UTC", source=_BLOCKS)
WINDOW_TOO_SHORT = define_rule("GPU-CAP-012", "a block is longer than its drain", source=_ASG)
BLOCK_SIZE = define_rule("GPU-CAP-013", "a Capacity Block holds at most 64 instances", source=_BLOCKS)
BLOCK_REGION = define_rule("GPU-CAP-014", "blocks of the type are listed for the Region", source=_BLOCKS)
FOREIGN_PLACEMENT_GROUP = define_rule(
    "GPU-CAP-016",
    "an existing reservation is launched only into the placement group it was created in",
    source=f"{_ODCR}; eksctl-io/eksctl 7949 (11 of 16 reserved nodes)",
)
SPOT_PRICE = define_rule(
    "GPU-CAP-020",
    "a spot price limit is above 0.001 US dollars",
    source="EC2 API reference, SpotMarketOptions, MaxPrice",
)

BLOCKS_TOGETHER = define_rule(
    "GPU-CAP-041", "a fleet has room for all blocks that run at the same time", source="design: paid capacity is used"
)
BLOCK_LIST = define_rule(
    "GPU-CAP-042",
    "a fleet has at most 20 Capacity Blocks, each once, of which 10 run at the same time",
    source="CloudWatch API reference, MetricDataQuery: an expression has at most 2,048 characters; Resource Groups API "
    "reference, GroupResources: 10 ARNs",
)

SEGMENT = define_rule(
    "GPU-CAP-043",
    "a distribution segment has types of reservations, each once, and on-demand last",
    source='EC2 Auto Scaling guide, "Use Distribution Segments to target multiple Capacity Reservation types"',
)

MAX_BLOCKS = 20
MAX_BLOCKS_TOGETHER = 10
MAX_BLOCK_INSTANCES = 64
MIN_SPOT_PRICE_USD_PER_HOUR = 0.001
_BLOCK_END_UTC = (11, 30)
_RESERVATION_ID = re.compile(r"cr-([0-9a-f]{8}|[0-9a-f]{17})")
_GROUP_ARN = re.compile(r"arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:\d{12}:group/[\w.-]{1,300}")


@check
def check_capacity(
    terms: CapacityTerms,
    instance_type: InstanceType,
    *,
    node_count: int | None = None,
    region: str | None = None,
    placement: PlacementStrategy | None = None,
    has_reservation_group: bool = False,
) -> Iterator[Finding]:
    """Find everything that is wrong with buying a type on some terms.

    Args:
        terms: The requested capacity.
        instance_type: The type of every node.
        node_count: Number of nodes, None if unknown.
        region: Region, None if unknown.
        placement: The requested strategy; None to let the library choose.
        has_reservation_group: Whether the placement group in use is the one the reservation was made in.
    """
    yield from check_ended(terms)
    yield from _check_ids(terms)
    yield from _check_placement(terms, placement, has_reservation_group)
    if terms.kind.is_block:
        yield from _check_window(terms, node_count)
        yield from _check_block_type(terms, instance_type, node_count, region)
        return
    yield from _check_segment(terms, instance_type)
    if instance_type.ultraservers:
        yield ONLY_ULTRASERVER.finding(
            cause=f"{instance_type.name} is sold only as an UltraServer Capacity Block",
            got=terms.kind.value,
            allowed=CapacityKind.ULTRASERVER_BLOCK.value,
            fix="buy an UltraServer block and give its resource group",
        )
    if terms.kind is CapacityKind.SPOT:
        yield from _check_spot(terms, instance_type)
    if terms.kind is CapacityKind.ON_DEMAND and _is_scarce(instance_type):
        yield ON_DEMAND_P.finding(
            cause=f"{instance_type.name} is rarely available on demand",
            got=terms.kind.value,
            fix="reserve it: a Capacity Block or an On-Demand Capacity Reservation",
            severity=Severity.WARNING,
        )


ENDED = define_rule(
    "GPU-CAP-024",
    "capacity has not ended",
    source="AWS EC2 user guide, Capacity Blocks and Capacity Reservations: nothing launches into them after their end",
)
#: Nothing was deployed with this library before the year of its first commit. Capacity that ended earlier is a mistake
#: whenever it is read, so that synthesis needs no clock, and never refuses a stack whose block has ended since.
FIRST_USE = datetime(2026, 1, 1, tzinfo=UTC)


@check
def check_ended(terms: CapacityTerms, *, now: datetime | None = None) -> Iterator[Finding]:
    """Find capacity that has ended.

    Args:
        terms: The requested capacity.
        now: The time; None to find only what ended before this library was used, which is an error. What ended since
            is a warning: a stack whose block has ended must still be updated and destroyed.

    Example:
        >>> from cdk_gpu_clusters.rules.capacity import CapacityKind
        >>> old = CapacityTerms(kind=CapacityKind.SPOT, ends_at=datetime(2020, 1, 1, tzinfo=UTC))
        >>> [finding.severity.value for finding in check_ended(old)]
        ['error']
    """
    if not terms.blocks:
        yield from _ended(terms.ends_at, now, "ends_at")
    for index, block in enumerate(terms.blocks):
        yield from _ended(block.ends_at, now, f"capacity_blocks[{index}].ends_at")


def _ended(end: datetime | None, now: datetime | None, path: str) -> Iterator[Finding]:
    if end is None or end >= max(FIRST_USE, now or FIRST_USE):
        return
    is_old = end < FIRST_USE
    yield ENDED.finding(
        cause="the capacity has ended, so no node would launch"
        if is_old
        else "the capacity has ended: the fleet has no nodes any more",
        got=_show(end),
        allowed="a time to come",
        fix="correct the time, or give capacity that is still to come",
        path=path,
        severity=Severity.ERROR if is_old else Severity.WARNING,
    )


def _check_segment(terms: CapacityTerms, instance_type: InstanceType) -> Iterator[Finding]:
    types, last = terms.segment, TargetCapacityType.ON_DEMAND
    if not types:
        return
    shown = ", ".join(one.value for one in types)
    if len(set(types)) < len(types) or last in types[:-1] or types == (last,):
        yield SEGMENT.finding(
            cause="EC2 Auto Scaling refuses this order of capacity types",
            got=shown,
            allowed="types of reservations, each once, and then on-demand to fall back to",
            fix="remove what is twice, and move on-demand to the end",
        )
    if TargetCapacityType.CAPACITY_BLOCK not in types:
        return
    if terms.ends_at is None:
        yield BLOCK_NEEDS_END.finding(
            cause="EC2 ends the nodes of a Capacity Block with it, so that they have to be drained before",
            got="no ends_at",
            allowed="the end of the first block to end, such as 2026-12-15T11:30Z",
            fix="add ends_at, or leave capacity-block out",
            path="ends_at",
        )
    if not instance_type.supports_capacity_block:
        yield _wrong_block_kind(terms, instance_type)


def _is_scarce(instance_type: InstanceType) -> bool:
    return instance_type.family.startswith(("p4", "p5", "p6"))


def _check_ids(terms: CapacityTerms) -> Iterator[Finding]:
    if terms.reservation_id is not None and not _RESERVATION_ID.fullmatch(terms.reservation_id):
        yield RESERVATION_ID.finding(
            cause="that is not the id of a Capacity Reservation or Capacity Block",
            got=terms.reservation_id,
            allowed="cr- and 17 (or 8) hexadecimal digits",
            fix="copy the id from the EC2 console or from DescribeCapacityReservations",
        )
    if terms.reservation_group_arn is not None and not _GROUP_ARN.fullmatch(terms.reservation_group_arn):
        yield RESERVATION_GROUP_ARN.finding(
            cause="that is not the ARN of a resource group",
            got=terms.reservation_group_arn,
            allowed="arn:<partition>:resource-groups:<region>:<account>:group/<name>",
            fix="give the ARN of the resource group that holds the reservations",
        )


def _check_placement(
    terms: CapacityTerms, placement: PlacementStrategy | None, has_reservation_group: bool
) -> Iterator[Finding]:
    if placement is None or placement is PlacementStrategy.NONE:
        return
    if terms.kind.is_block:
        yield BLOCK_WITH_PLACEMENT_GROUP.finding(
            cause="a launch into a Capacity Block may not name a placement group",
            got=placement.value,
            allowed="none",
            fix="leave the placement group out: the block's instances are already close together",
        )
    elif terms.kind is CapacityKind.RESERVATION and not has_reservation_group:
        yield FOREIGN_PLACEMENT_GROUP.finding(
            cause="the reservation was not made in that placement group, so part of it cannot be launched",
            got=placement.value,
            allowed="the placement group that the reservation was made in, or none",
            fix="give the reservation's own placement group, or leave the placement out",
        )


def _check_window(terms: CapacityTerms, node_count: int | None) -> Iterator[Finding]:
    if terms.blocks:
        yield from _check_blocks(terms, node_count)
        return
    if terms.ends_at is None:
        yield BLOCK_NEEDS_END.finding(
            cause="a Capacity Block needs its end, so that the nodes are drained before EC2 takes them",
            got="no ends_at",
            allowed="the end date of the block, such as 2026-12-15T11:30Z",
            fix="add ends_at as DescribeCapacityReservations shows it",
            path="ends_at",
        )
        return
    if (terms.ends_at.hour, terms.ends_at.minute) != _BLOCK_END_UTC:
        yield BLOCK_END_TIME.finding(
            cause="a Capacity Block ends at 11:30 UTC on its last day",
            got=_show(terms.ends_at),
            allowed=f"{terms.ends_at:%Y-%m-%d}T11:30Z",
            fix="compare ends_at with EndDate in DescribeCapacityReservations",
            path="ends_at",
            severity=Severity.WARNING,
        )
    drain = DRAIN_BEFORE_END[terms.kind]
    if terms.starts_at is not None and terms.starts_at >= terms.ends_at:
        yield WINDOW_REVERSED.finding(
            cause="the block starts at or after its end",
            got=f"{_show(terms.starts_at)} to {_show(terms.ends_at)}",
            fix="exchange or correct starts_at and ends_at",
            path="starts_at",
        )
    elif terms.starts_at is not None and terms.ends_at - terms.starts_at <= drain:
        yield WINDOW_TOO_SHORT.finding(
            cause="the block is over before its nodes would be drained",
            got=str(terms.ends_at - terms.starts_at),
            allowed=f"longer than {drain}",
            fix="correct starts_at or ends_at; the shortest block is one day",
            path="ends_at",
        )


def _check_blocks(terms: CapacityTerms, node_count: int | None) -> Iterator[Finding]:
    """Find what is wrong with one of several blocks, or between them."""
    if len(terms.blocks) > MAX_BLOCKS:
        yield BLOCK_LIST.finding(
            cause="an alarm's expression has no room for so many blocks",
            got=f"{len(terms.blocks)} blocks",
            allowed=f"1 to {MAX_BLOCKS}",
            fix="remove the blocks that are over",
            path="capacity_blocks",
        )
    ids = terms.reservation_ids
    for index, block in enumerate(terms.blocks):
        path = f"capacity_blocks[{index}]"
        if block.reservation_id in ids[:index]:
            yield BLOCK_LIST.finding(
                cause="a block is in the list twice",
                got=block.reservation_id,
                fix="remove one of the two; nodes of a block that was extended stay with its later end",
                path=path,
            )
        alone = CapacityTerms(
            kind=terms.kind,
            reservation_id=block.reservation_id,
            starts_at=block.starts_at,
            ends_at=block.ends_at,
        )
        for finding in (*_check_ids(alone), *_check_window(alone, node_count)):
            yield replace(finding, path=f"{path}.{finding.path}" if finding.path else path)
        running = [other for other in terms.blocks if _runs_at_start(other, block)]
        if len(running) > MAX_BLOCKS_TOGETHER:
            yield BLOCK_LIST.finding(
                cause="one call takes no more blocks into the fleet's resource group",
                got=f"{len(running)} blocks run at the start of {block.reservation_id}",
                allowed=f"at most {MAX_BLOCKS_TOGETHER}",
                fix="make several fleets",
                path=path,
            )
        together = sum(other.node_count or node_count or 0 for other in running)
        if node_count is not None and together > node_count:
            yield BLOCKS_TOGETHER.finding(
                cause="blocks that run at the same time have more instances than the fleet has nodes",
                got=f"{together} instances at the start of {block.reservation_id}, {node_count} nodes",
                allowed=f"at most {node_count} instances",
                fix="raise the number of nodes and give each block its own, or make a fleet for each block",
                path=path,
            )


def _runs_at_start(other: BlockTerms, block: BlockTerms) -> bool:
    """Whether a block has nodes when another one starts; one without a start runs already."""
    drained = other.ends_at - DRAIN_BEFORE_END[CapacityKind.CAPACITY_BLOCK]
    if other is block:
        return True
    if block.starts_at is None:
        return other.starts_at is None
    return (other.starts_at is None or other.starts_at <= block.starts_at) and block.starts_at < drained


def _check_block_type(
    terms: CapacityTerms, instance_type: InstanceType, node_count: int | None, region: str | None
) -> Iterator[Finding]:
    is_ultraserver = bool(instance_type.ultraservers)
    bought = max((one.node_count or node_count or 0 for one in terms.blocks), default=node_count)
    if "capacity-block" not in instance_type.usage_classes or is_ultraserver != (
        terms.kind is CapacityKind.ULTRASERVER_BLOCK
    ):
        yield _wrong_block_kind(terms, instance_type)
    elif is_ultraserver:
        yield from _check_ultraserver_nodes(instance_type, node_count)
    elif bought is not None and bought > MAX_BLOCK_INSTANCES:
        yield BLOCK_SIZE.finding(
            cause="a Capacity Block has fewer instances",
            got=f"{bought} nodes",
            allowed=f"1 to {MAX_BLOCK_INSTANCES}",
            fix="list several blocks, each with its number of nodes, or make a fleet for each block",
        )
    listed = instance_type.capacity_block_regions
    if region is not None and listed and region not in listed:
        yield BLOCK_REGION.finding(
            cause=f"AWS lists no Capacity Blocks of {instance_type.name} in this Region",
            got=region,
            allowed=", ".join(listed),
            fix="check the Region; the list is of mid-2026 and may have grown",
            severity=Severity.WARNING,
        )


def _wrong_block_kind(terms: CapacityTerms, instance_type: InstanceType) -> Finding:
    if "capacity-block" in instance_type.usage_classes:
        right = CapacityKind.ULTRASERVER_BLOCK if instance_type.ultraservers else CapacityKind.CAPACITY_BLOCK
        allowed, fix = right.value, f"use {right.value} for {instance_type.name}"
    else:
        allowed = ", ".join(sorted(instance_type.usage_classes)) or "on-demand"
        fix = "use on-demand, spot or an On-Demand Capacity Reservation"
    return TYPE_WITHOUT_BLOCKS.finding(
        cause=f"{instance_type.name} does not come as this kind of block",
        got=terms.kind.value,
        allowed=allowed,
        fix=fix,
    )


def _check_ultraserver_nodes(instance_type: InstanceType, node_count: int | None) -> Iterator[Finding]:
    sizes = sorted({server.instance_count for server in instance_type.ultraservers})
    if node_count is not None and not any(node_count % size == 0 for size in sizes):
        yield ULTRASERVER_NODES.finding(
            cause="an UltraServer block is bought and drained as one unit",
            got=f"{node_count} nodes",
            allowed="multiples of " + " or ".join(str(size) for size in sizes),
            fix="give the number of instances of the UltraServers in the block",
        )


def _check_spot(terms: CapacityTerms, instance_type: InstanceType) -> Iterator[Finding]:
    if "spot" not in instance_type.usage_classes:
        yield NO_SPOT.finding(
            cause=f"{instance_type.name} is not offered as spot",
            got="spot",
            allowed=", ".join(sorted(instance_type.usage_classes)),
            fix="use one of the purchase options that the type has",
        )
    price = terms.max_price_usd_per_hour
    if price is not None and price <= MIN_SPOT_PRICE_USD_PER_HOUR:
        yield SPOT_PRICE.finding(
            cause="EC2 refuses so low a spot price limit",
            got=str(price),
            allowed=f"more than {MIN_SPOT_PRICE_USD_PER_HOUR} US dollars per instance-hour",
            fix="leave the limit out to pay at most the on-demand price",
        )


def _show(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%MZ}"


# On-Demand Capacity Reservations to create, and Capacity Blocks to request.


RESERVATION_COUNT = define_rule("GPU-CAP-017", "a reservation holds 1 to 1000 instances", source=_ODCR)
RESERVATION_END = define_rule(
    "GPU-CAP-018",
    "a reservation has an end date, or is explicitly unlimited",
    source="design: a forgotten reservation bills forever",
)
RESERVATION_PLACEMENT = define_rule(
    "GPU-CAP-019", "only a cluster placement group can hold a reservation", source=_ODCR
)

RESERVED_TYPE = define_rule("GPU-CAP-021", "a reservation is used by instances of its own type", source=_ODCR)
RESERVED_SIZE = define_rule("GPU-CAP-022", "a fleet is not larger than its reservation", source=_ODCR)
UNUSED_ALARM = define_rule(
    "GPU-CAP-023",
    "an alarm looks back 5 minutes to 7 days",
    source="CloudWatch PutMetricAlarm: periods of an hour and more look back 7 days at most, shorter ones one day",
)

MAX_RESERVED_INSTANCES = 1000


@check
def check_new_reservation(
    *,
    instance_count: int,
    ends_at: datetime | None,
    unlimited: bool,
    placement: PlacementStrategy | None = None,
    instance_type: InstanceType | None = None,
) -> Iterator[Finding]:
    """Find what is wrong with an On-Demand Capacity Reservation that is to be made here.

    Args:
        instance_count: Instances to reserve, 1 to 1000.
        ends_at: When EC2 cancels it (within the hour after), None with `unlimited`.
        unlimited: Explicitly without an end: it bills until it is cancelled.
        placement: Strategy of the placement group that it is made in, if any.
        instance_type: What it reserves, None where that is checked elsewhere.
    """
    yield from _ended(ends_at, None, "end_date")
    if not 1 <= instance_count <= MAX_RESERVED_INSTANCES:
        yield RESERVATION_COUNT.finding(
            cause="a reservation cannot hold that many instances",
            got=str(instance_count),
            allowed=f"1 to {MAX_RESERVED_INSTANCES}",
            fix="split it into several reservations",
        )
    if unlimited == (ends_at is not None):
        yield RESERVATION_END.finding(
            cause="a reservation bills whether used or not, so it needs an end date or the word unlimited",
            got="both" if unlimited else "neither",
            allowed="end_date, or unlimited: true",
            fix="give exactly one of the two",
        )
    if placement is not None and placement is not PlacementStrategy.CLUSTER:
        yield RESERVATION_PLACEMENT.finding(
            cause="a reservation can be made only in a cluster placement group",
            got=placement.value,
            allowed=PlacementStrategy.CLUSTER.value,
            fix="use a cluster placement group, or none",
        )
    elif placement is not None and instance_type is not None:
        yield from check_group_of_reservation(instance_type)


@check
def check_reserved_use(
    *, reserved_type: str, reserved_count: int, instance_type: str, node_count: int
) -> Iterator[Finding]:
    """Find a fleet that its reservation cannot serve."""
    if instance_type != reserved_type:
        yield RESERVED_TYPE.finding(
            cause="the reservation holds instances of another type",
            got=f"{instance_type} nodes, {reserved_type} reserved",
            allowed=reserved_type,
            fix="reserve the type of the fleet",
        )
    if node_count > reserved_count:
        yield RESERVED_SIZE.finding(
            cause="the reservation holds fewer instances than the fleet has nodes",
            got=f"{node_count} nodes, {reserved_count} reserved",
            allowed=f"at most {reserved_count} nodes",
            fix="raise instance_count of the reservation, or lower the number of nodes",
        )


@check
def check_unused_alarm(minutes: int) -> Iterator[Finding]:
    """Find a time for the unused-reservation alarm that CloudWatch would refuse.

    Args:
        minutes: How long reserved instances may be unused before it fires.
    """
    if not 5 <= minutes <= 7 * 24 * 60:
        yield UNUSED_ALARM.finding(
            cause="an alarm cannot look back that long, or that short",
            got=f"{minutes} minutes",
            allowed="5 minutes to 7 days",
            fix="change unused_alarm_after",
        )


# What Capacity Block or training plan may be asked for: its duration and its size.
#
# Blocks: AWS EC2 user guide, "Capacity Blocks for ML" (stored copy of 2026): 1 to 14 days by the day, then multiples of
# 7 days up to 182; at most 64 instances.

_SOURCE = 'AWS EC2 user guide, "Capacity Blocks for ML" (stored copy of 2026)'
DURATION = define_rule(
    "GPU-OFFER-001",
    "a Capacity Block lasts 1 to 14 days, or a number of weeks up to 182 days",
    source=_SOURCE,
)
SIZE = define_rule("GPU-OFFER-002", "a Capacity Block has 1 to 64 instances", source=_SOURCE)
PLAN_REQUEST = define_rule(
    "GPU-OFFER-003",
    "a training plan of SageMaker lasts 1 to 182 days, and has 1, 2, 4, 8, 16, 32 or 64 instances",
    source='Amazon SageMaker AI developer guide, "Search training plan offerings", read 2026-11',
)

HOURS_PER_DAY = 24
_MOST_SINGLE_DAYS = 14
_MOST_DAYS = 182
_DAYS_PER_WEEK = 7
_PLAN_INSTANCES = (1, 2, 4, 8, 16, 32, 64)
_HOURS = {"h": 1, "d": HOURS_PER_DAY, "w": HOURS_PER_DAY * _DAYS_PER_WEEK}


def hours_of(duration: str) -> int | None:
    """The hours of a duration such as `36h`, `14d` and `4w`; None if it is not written so.

    Example:
        >>> hours_of("14d")
        336
    """
    match = re.fullmatch(r"([1-9][0-9]{0,5})([hdw])", duration.strip().lower())
    return int(match[1]) * _HOURS[match[2]] if match else None


@check
def check_block_request(instance_type: InstanceType, *, count: int, duration: str) -> Iterator[Finding]:
    """Find what EC2 sells no Capacity Block for.

    Args:
        instance_type: Type of the instances.
        count: Number of instances.
        duration: Such as `14d`.
    """
    days = _days_of(duration)
    if days is None or not _is_sold(days):
        yield DURATION.finding(
            cause="EC2 sells no Capacity Block of this duration",
            got=duration,
            allowed="1d to 14d, or 3w, 4w, … 26w",
            fix=f"ask for {_nearest(days)}" if days else "write it as days or weeks, such as 14d",
            path="duration",
        )
    if not 1 <= count <= MAX_BLOCK_INSTANCES:
        yield SIZE.finding(
            cause=f"EC2 sells no Capacity Block of so many {instance_type.name}",
            got=str(count),
            allowed=f"1 to {MAX_BLOCK_INSTANCES}",
            fix="buy several blocks, and make a fleet of each",
            path="count",
        )


@check
def check_plan_request(instance_type: InstanceType, *, count: int, duration: str) -> Iterator[Finding]:
    """Find what SageMaker sells no training plan for.

    Args:
        instance_type: Type of the instances.
        count: Number of instances.
        duration: Such as `14d`.
    """
    days = _days_of(duration)
    if days is None or not 1 <= days <= _MOST_DAYS:
        yield PLAN_REQUEST.finding(
            cause="SageMaker sells no training plan of this duration",
            got=duration,
            allowed=f"1d to {_MOST_DAYS}d",
            fix=f"ask for {_MOST_DAYS}d" if days else "write it as days or weeks, such as 14d",
            path="duration",
        )
    if count not in _PLAN_INSTANCES:
        yield PLAN_REQUEST.finding(
            cause=f"SageMaker sells no training plan of so many {instance_type.name}",
            got=str(count),
            allowed=", ".join(map(str, _PLAN_INSTANCES)),
            fix="buy several plans, and make an instance group of each",
            path="count",
        )


def _days_of(duration: str) -> int | None:
    """The days of a duration; None if they are not full ones."""
    hours = hours_of(duration)
    return None if hours is None or hours % HOURS_PER_DAY else hours // HOURS_PER_DAY


def _is_sold(days: int) -> bool:
    if days <= _MOST_SINGLE_DAYS:
        return days >= 1
    return days % _DAYS_PER_WEEK == 0 and days <= _MOST_DAYS


def _nearest(days: int) -> str:
    weeks = min(max(round(days / _DAYS_PER_WEEK), 1), _MOST_DAYS // _DAYS_PER_WEEK)
    return f"{weeks * _DAYS_PER_WEEK}d"
