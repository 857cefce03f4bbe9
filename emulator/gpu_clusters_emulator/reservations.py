"""Capacity reservations, Capacity Blocks and their states over time, and the names of their zones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cdk_gpu_clusters.catalogue.instances import instance_type, instance_type_names
from cdk_gpu_clusters.catalogue.regions import region_of_zone

from .clock import parse_time

_ID = re.compile(r"[a-z]+\d+(?:-(?P<place>[a-z]+)(?P<number>\d+))?-az(?P<zone>\d+)")


def zone_name(zone: str) -> str:
    """The name of a zone that is given by name or by id; what is neither stays as it is."""
    region, parts = region_of_zone(zone), _ID.fullmatch(zone)
    if region is None or parts is None:
        return zone
    letter = chr(ord("a") + int(parts["zone"]) - 1)
    place = f"-{parts['place']}-{parts['number']}" if parts["place"] else ""
    return f"{region.name}{place}{letter}"


# Capacity reservations and Capacity Blocks, and their states over time. Source: EC2 user guide, "Capacity Blocks for
# ML" (instances of a block are terminated from 30 minutes before its end, those of an UltraServer from 60; the
# expiration warning comes 40 minutes before the end; ends at 11:30 UTC) and "View Capacity Blocks" (states
# payment-pending, payment-failed, scheduled, active, expired), read 2026-11-21.

BLOCK_WARNING = timedelta(minutes=40)
_BLOCK_TERMINATION, _ULTRASERVER_TERMINATION = timedelta(minutes=30), timedelta(minutes=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A reservation that exists in the account.

    Attributes:
        id: Such as `cr-0123456789abcdef0`.
        availability_zone: The zone's name.
        kind: `default` (On-Demand Capacity Reservation) or `capacity-block`.
        count: Instances reserved.
        fixed_state: A state that time does not change, such as `payment-failed`; empty to follow the clock.
        starts_at: When it becomes active; None for already.
        ends_at: When it ends; None for never.
        platform: Platform string; `Linux/UNIX` is what GPU images report.
    """

    id: str
    instance_type: str
    availability_zone: str
    count: int
    kind: str = "default"
    fixed_state: str = ""
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    placement_group: str = ""
    match_criteria: str = "open"
    platform: str = "Linux/UNIX"

    @property
    def is_block(self) -> bool:
        """Whether it is a Capacity Block."""
        return self.kind == "capacity-block"

    @property
    def terminates_at(self) -> datetime | None:
        """From when on EC2 ends the instances of a block; None where it does not."""
        if not self.is_block or self.ends_at is None:
            return None
        is_ultraserver = self.instance_type in instance_type_names() and instance_type(self.instance_type).ultraservers
        return self.ends_at - (_ULTRASERVER_TERMINATION if is_ultraserver else _BLOCK_TERMINATION)

    def state(self, now: datetime) -> str:
        """The state EC2 would report at `now`."""
        if self.fixed_state:
            return self.fixed_state
        if self.starts_at is not None and now < self.starts_at:
            return "scheduled"
        if self.ends_at is not None and now >= self.ends_at:
            return "expired"
        return "active"

    def accepts_launches(self, now: datetime) -> bool:
        """Whether an instance can be launched into it at `now`."""
        is_ending = self.terminates_at is not None and now >= self.terminates_at
        return self.state(now) == "active" and not is_ending


def seeded_reservation(document: Mapping[str, Any]) -> Reservation:
    """Read a seed.

    Args:
        document: `id`, `instance_type`, `availability_zone`, `count`; optional `kind`, `state`, `starts_at`,
            `ends_at`, `placement_group`, `match_criteria`, `platform`.

    Raises:
        TypeError: If a key is missing or unknown.
    """
    values = dict(document)
    for name in ("starts_at", "ends_at"):
        if values.get(name) is not None:
            values[name] = parse_time(values[name])
    values["fixed_state"] = values.pop("state", "") or ""
    values["availability_zone"] = zone_name(values["availability_zone"])
    return Reservation(**values)
