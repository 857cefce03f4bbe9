"""What EC2 refuses in an On-Demand Capacity Reservation beyond its schema.

Source: EC2 API, CreateCapacityReservation (InstanceCount 1 to 1000; EndDate required with EndDateType `limited` and
not allowed with `unlimited`), and EC2 user guide, "Capacity Reservations in cluster placement groups" (cluster
strategy only), stored copies of 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..clock import format_time, parse_time
from ..faults import Fault
from ..schemas import instance_type_exists
from ..world import Json, World

_MOST_INSTANCES = 1_000


def reservation_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EC2::CapacityReservation`."""
    name, count = properties["InstanceType"], properties["InstanceCount"]
    if not instance_type_exists(name):
        yield Fault("instance-type", f"there is no instance type {name!r}", "InstanceType")
    if not 1 <= count <= _MOST_INSTANCES:
        message = f"a reservation has 1 to {_MOST_INSTANCES:,} instances, got {count}"
        yield Fault("reservation-count", message, "InstanceCount")
    if ("AvailabilityZone" in properties) == ("AvailabilityZoneId" in properties):
        yield Fault("reservation-zone", "give either AvailabilityZone or AvailabilityZoneId")
    yield from _end_faults(properties, world)
    yield from _group_faults(properties, world)


def _end_faults(properties: Json, world: World) -> Iterator[Fault]:
    kind, end = properties.get("EndDateType", "unlimited"), properties.get("EndDate")
    if kind == "limited" and not end:
        yield Fault("reservation-end", "EndDateType limited needs an EndDate", "EndDate")
    if kind == "unlimited" and end:
        yield Fault("reservation-end", "EndDateType unlimited allows no EndDate", "EndDate")
    if not end:
        return
    try:
        moment = parse_time(end)
    except ValueError:
        yield Fault("reservation-end", f"{end!r} is no ISO 8601 time", "EndDate")
        return
    if moment <= world.clock.now():
        message = f"the end {format_time(moment)} is in the past; it is {format_time(world.clock.now())}"
        yield Fault("reservation-end-past", message, "EndDate")


def _group_faults(properties: Json, world: World) -> Iterator[Fault]:
    arn = properties.get("PlacementGroupArn")
    if not arn:
        return
    name = arn.rsplit("placement-group/", 1)[-1]
    strategy = world.placement_strategy(name)
    if strategy is None:
        message = f"the placement group {name!r} does not exist"
        yield Fault("placement-group-missing", message, "PlacementGroupArn")
    elif strategy != "cluster":
        message = f"a reservation is made in a cluster placement group only; {name!r} is a {strategy} group"
        yield Fault("reservation-in-wrong-group", message, "PlacementGroupArn")


# What EC2 refuses about placement groups. Source: EC2 user guide, "Capacity Reservations in cluster placement
# groups" (a group cannot be deleted while it holds reservations) and "Delete a placement group" (nor while it holds
# instances), stored copies of 2026.


def placement_group_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::EC2::PlacementGroup`."""
    now = world.clock.now()
    for reservation in world.reservations().values():
        if reservation.placement_group == physical_id and reservation.state(now) in ("active", "scheduled"):
            message = f"the placement group {physical_id!r} still holds the reservation {reservation.id}"
            yield Fault("placement-group-in-use", message)
