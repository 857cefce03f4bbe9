"""Launches of instances: where they stand, which reservation they use, and when there is none.

A launch succeeds when the reservation that the launch template targets accepts launches now and has room; nothing else
(quota, insufficient capacity, boot) is modelled.
"""

from __future__ import annotations

from . import lifecycle
from .groups import IN_SERVICE, Group, Instance
from .reservations import Reservation
from .world import AUTO_SCALING_GROUP, Json, World, template_specification


def launch(world: World, group: Group, count: int) -> list[Instance]:
    """Launch instances into a group; fewer where reserved capacity runs out, which the activities tell."""
    reservations, targeted = _target(world, group)
    now = world.clock.now()
    made: list[Instance] = []
    for _ in range(count):
        usable = [
            one for one in reservations if one.accepts_launches(now) and _used(world, one.id) < one.count
        ]
        if targeted and not usable:
            states = (
                ", ".join(f"{one.id} is {one.state(now)}" for one in reservations) or "its target is gone"
            )
            group.note(world, "Failed", "Launching a new EC2 instance", f"no reserved capacity: {states}")
            break
        made.append(_new_instance(world, group, usable[0] if usable else None))
        lifecycle.enter(world, group, made[-1])
    return made


def current_template(world: World, group: Group) -> tuple[str, str]:
    """Id and version of the launch template that a group uses now."""
    specification = template_specification(_properties(world, group)) or {}
    found = world.launch_template(specification)
    return (found.physical_id if found else ""), str(specification.get("Version", "$Default"))


def _properties(world: World, group: Group) -> Json:
    resource = world.find(AUTO_SCALING_GROUP, group.name)
    return resource.properties if resource else {}


def _target(world: World, group: Group) -> tuple[list[Reservation], bool]:
    data = world.data_of_group(group.name) or {}
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if "CapacityReservationId" in target:
        found = world.reservations().get(target["CapacityReservationId"])
        return ([found] if found else []), True
    if "CapacityReservationResourceGroupArn" in target:
        return world.reservations_in_group(target["CapacityReservationResourceGroupArn"]) or [], True
    return [], False


def _used(world: World, reservation_id: str) -> int:
    return sum(
        one.reservation_id == reservation_id for group in world.groups.values() for one in group.instances
    )


def _new_instance(world: World, group: Group, reservation: Reservation | None) -> Instance:
    template_id, version = current_template(world, group)
    data = world.data_of_group(group.name) or {}
    return Instance(
        id=world.new_id("i-", group.name),
        instance_type=data.get("InstanceType", ""),
        availability_zone=_zone(world, group),
        template_id=template_id,
        template_version=version,
        reservation_id=reservation.id if reservation else "",
        lifecycle_state=IN_SERVICE,
        since=world.clock.now(),
    )


def _zone(world: World, group: Group) -> str:
    """The zone with the fewest instances of the group: Auto Scaling keeps its zones balanced."""
    subnets = _properties(world, group).get("VPCZoneIdentifier", [])
    zones = [world.zone_of_subnet(subnet) or "" for subnet in subnets] or [""]
    taken = [one.availability_zone for one in group.instances]
    return min(zones, key=taken.count)
