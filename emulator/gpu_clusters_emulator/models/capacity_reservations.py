"""What EC2 refuses in an On-Demand Capacity Reservation beyond its schema.

Source: EC2 API, CreateCapacityReservation (InstanceCount 1 to 1000; EndDate required with EndDateType `limited` and
not allowed with `unlimited`), and EC2 user guide, "Capacity Reservations in cluster placement groups" (cluster
strategy only), stored copies of 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..clock import format_time, parse_time
from ..faults import Fault
from ..instance_types import instance_type_exists

if TYPE_CHECKING:
    from ..world import World

_MOST_INSTANCES = 1_000


def reservation_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EC2::CapacityReservation`."""
    name, count = properties["InstanceType"], properties["InstanceCount"]
    if not instance_type_exists(name):
        yield Fault(check="instance-type", message=f"there is no instance type {name!r}", path="InstanceType")
    if not 1 <= count <= _MOST_INSTANCES:
        yield Fault(
            check="reservation-count",
            message=f"a reservation has 1 to {_MOST_INSTANCES:,} instances, got {count}",
            path="InstanceCount",
        )
    if ("AvailabilityZone" in properties) == ("AvailabilityZoneId" in properties):
        yield Fault(check="reservation-zone", message="give either AvailabilityZone or AvailabilityZoneId")
    yield from _end_faults(properties, world)
    yield from _group_faults(properties, world)


def _end_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    kind, end = properties.get("EndDateType", "unlimited"), properties.get("EndDate")
    if kind == "limited" and not end:
        yield Fault(check="reservation-end", message="EndDateType limited needs an EndDate", path="EndDate")
    if kind == "unlimited" and end:
        yield Fault(
            check="reservation-end", message="EndDateType unlimited allows no EndDate", path="EndDate"
        )
    if not end:
        return
    try:
        moment = parse_time(end)
    except ValueError:
        yield Fault(check="reservation-end", message=f"{end!r} is no ISO 8601 time", path="EndDate")
        return
    if moment <= world.clock.now():
        yield Fault(
            check="reservation-end-past",
            message=f"the end {format_time(moment)} is in the past; it is {format_time(world.clock.now())}",
            path="EndDate",
        )


def _group_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    arn = properties.get("PlacementGroupArn")
    if not arn:
        return
    name = arn.rsplit("placement-group/", 1)[-1]
    group = world.find("AWS::EC2::PlacementGroup", name)
    strategy = (
        group.properties.get("Strategy", "cluster") if group else world.seeded_placement_groups.get(name)
    )
    if strategy is None:
        yield Fault(
            check="placement-group-missing",
            message=f"the placement group {name!r} does not exist",
            path="PlacementGroupArn",
        )
    elif strategy != "cluster":
        yield Fault(
            check="reservation-in-wrong-group",
            message=f"a reservation is made in a cluster placement group only; {name!r} is a {strategy} group",
            path="PlacementGroupArn",
        )
