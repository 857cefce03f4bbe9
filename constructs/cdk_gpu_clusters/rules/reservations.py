"""On-Demand Capacity Reservations to create, and Capacity Blocks to request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.errors import Finding, check, define_rule
from cdk_gpu_clusters.rules.capacity_checks import MAX_BLOCK_INSTANCES
from cdk_gpu_clusters.rules.placement import PlacementStrategy, check_group_of_reservation

# On-Demand Capacity Reservations that are to be made here.

_ODCR = 'AWS EC2 user guide, "On-Demand Capacity Reservations" (stored copy of 2026)'

RESERVATION_COUNT = define_rule("GPU-CAP-017", "a reservation holds 1 to 1000 instances", source=_ODCR)
RESERVATION_END = define_rule(
    "GPU-CAP-018",
    "a reservation has an end date, or is explicitly unlimited",
    source="design: a forgotten reservation bills for ever",
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
    """Find a fleet that its reservation cannot serve.

    Args:
        reserved_type: Instance type of the reservation.
        reserved_count: Instances of the reservation.
        instance_type: Type of the nodes.
        node_count: Most nodes of the fleet.
    """
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
        minutes: How long reserved instances may stand unused before it fires.
    """
    if not 5 <= minutes <= 7 * 24 * 60:
        yield UNUSED_ALARM.finding(
            cause="an alarm cannot look back that long, or that short",
            got=f"{minutes} minutes",
            allowed="5 minutes to 7 days",
            fix="change unused_alarm_after",
        )


# What Capacity Block may be asked for: its duration and its size.
#
# Source: AWS EC2 user guide, "Capacity Blocks for ML" (stored copy of 2026): 1 to 14 days by the day, then
# multiples of 7
# days up to 182; at most 64 instances.

_SOURCE = 'AWS EC2 user guide, "Capacity Blocks for ML" (stored copy of 2026)'
DURATION = define_rule(
    "GPU-OFFER-001",
    "a Capacity Block lasts 1 to 14 days, or a number of weeks up to 182 days",
    source=_SOURCE,
)
SIZE = define_rule("GPU-OFFER-002", "a Capacity Block has 1 to 64 instances", source=_SOURCE)

HOURS_PER_DAY = 24
_MOST_SINGLE_DAYS = 14
_MOST_DAYS = 182
_DAYS_PER_WEEK = 7
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
    hours = hours_of(duration)
    days = None if hours is None or hours % HOURS_PER_DAY else hours // HOURS_PER_DAY
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


def _is_sold(days: int) -> bool:
    if days <= _MOST_SINGLE_DAYS:
        return days >= 1
    return days % _DAYS_PER_WEEK == 0 and days <= _MOST_DAYS


def _nearest(days: int) -> str:
    weeks = min(max(round(days / _DAYS_PER_WEEK), 1), _MOST_DAYS // _DAYS_PER_WEEK)
    return f"{weeks * _DAYS_PER_WEEK}d"
