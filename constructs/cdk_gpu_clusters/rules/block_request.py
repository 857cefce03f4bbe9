"""What Capacity Block may be asked for: its duration and its size.

Source: AWS EC2 user guide, "Capacity Blocks for ML" (stored copy of 2026): 1 to 14 days by the day, then multiples of 7
days up to 182; at most 64 instances.
"""

from __future__ import annotations

import re

from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.rules.capacity_checks import MAX_BLOCK_INSTANCES

_SOURCE = 'AWS EC2 user guide, "Capacity Blocks for ML" (stored copy of 2026)'
DURATION = define_rule(
    "GPU-OFFER-001", "a Capacity Block lasts 1 to 14 days, or whole weeks up to 182 days", source=_SOURCE
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


def check_block_request(instance_type: InstanceType, *, count: int, duration: str) -> list[Finding]:
    """Find what EC2 sells no Capacity Block for.

    Args:
        instance_type: Type of the instances.
        count: Number of instances.
        duration: Such as `14d`.
    """
    findings = []
    hours = hours_of(duration)
    days = None if hours is None or hours % HOURS_PER_DAY else hours // HOURS_PER_DAY
    if days is None or not _is_sold(days):
        findings.append(
            DURATION.finding(
                cause="EC2 sells no Capacity Block of this duration",
                got=duration,
                allowed="1d to 14d, or 3w, 4w, … 26w",
                fix=f"ask for {_nearest(days)}" if days else "write it as days or weeks, such as 14d",
                path="duration",
            )
        )
    if not 1 <= count <= MAX_BLOCK_INSTANCES:
        findings.append(
            SIZE.finding(
                cause=f"EC2 sells no Capacity Block of so many {instance_type.name}",
                got=str(count),
                allowed=f"1 to {MAX_BLOCK_INSTANCES}",
                fix="buy several blocks, and make a fleet of each",
                path="count",
            )
        )
    return findings


def _is_sold(days: int) -> bool:
    if days <= _MOST_SINGLE_DAYS:
        return days >= 1
    return days % _DAYS_PER_WEEK == 0 and days <= _MOST_DAYS


def _nearest(days: int) -> str:
    weeks = min(max(round(days / _DAYS_PER_WEEK), 1), _MOST_DAYS // _DAYS_PER_WEEK)
    return f"{weeks * _DAYS_PER_WEEK}d"
