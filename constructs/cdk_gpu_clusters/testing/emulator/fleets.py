"""Auto Scaling at run time: sizes change, instances are launched or refused, hooks hold them.

An emulated launch succeeds when the reservation that the launch template targets accepts launches now and has room;
nothing else (quota, insufficient capacity, boot) is modelled.
"""

from __future__ import annotations

from typing import Any

from .clock import format_time
from .faults import ApiError
from .groups import Group, Instance
from .reservations import Reservation
from .world import AUTO_SCALING_GROUP, LIFECYCLE_HOOK, Json, Resource, World, template_specification

_LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"


def create_group(world: World, resource: Resource) -> None:
    """Start a group at its desired capacity, or at its minimum where the template gives none."""
    given = resource.properties
    world.groups[resource.physical_id] = Group(
        name=resource.physical_id,
        minimum=int(given["MinSize"]),
        maximum=int(given["MaxSize"]),
        desired=int(given.get("DesiredCapacity") or given["MinSize"]),
        created_at=world.clock.now(),
    )
    settle(world)


def update_group(world: World, resource: Resource) -> None:
    """Apply new properties: a desired capacity of the template is written back, a missing one keeps the size."""
    given, group = resource.properties, world.groups[resource.physical_id]
    group.minimum, group.maximum = int(given["MinSize"]), int(given["MaxSize"])
    desired = int(given.get("DesiredCapacity", group.desired))
    group.desired = min(max(desired, group.minimum), group.maximum)
    settle(world)


def group_named(world: World, name: str) -> Group:
    """The group of that name.

    Raises:
        ApiError: `ValidationError` where there is none, in Auto Scaling's words.
    """
    group = world.groups.get(name)
    if group is None:
        raise ApiError("ValidationError", f"AutoScalingGroup name not found - null: {name}")
    return group


def set_desired(world: World, name: str, desired: int) -> None:
    """Change the desired capacity through the API.

    Raises:
        ApiError: `ValidationError` outside minimum and maximum.
    """
    group = group_named(world, name)
    if desired < group.minimum:
        raise ApiError(
            "ValidationError",
            f"New SetDesiredCapacity value {desired} is below min value {group.minimum} for the AutoScalingGroup.",
        )
    if desired > group.maximum:
        raise ApiError(
            "ValidationError",
            f"New SetDesiredCapacity value {desired} is above max value {group.maximum} for the AutoScalingGroup.",
        )
    group.desired = desired
    settle(world)


def resize(world: World, name: str, changes: Json) -> None:
    """Change minimum, maximum and desired capacity together; the desired capacity follows the bounds.

    Raises:
        ApiError: `ValidationError` where the bounds cross or the desired capacity lies outside.
    """
    group = group_named(world, name)
    least, most = int(changes.get("MinSize", group.minimum)), int(changes.get("MaxSize", group.maximum))
    if least > most:
        raise ApiError(
            "ValidationError", f"Max bound, {most}, must be greater than or equal to min bound, {least}"
        )
    desired = int(changes.get("DesiredCapacity", min(max(group.desired, least), most)))
    if not least <= desired <= most:
        raise ApiError(
            "ValidationError",
            f"Desired capacity:{desired} must be between the specified min size:{least} and max size:{most}",
        )
    group.minimum, group.maximum, group.desired = least, most, desired
    settle(world)


def settle(world: World) -> None:
    """Bring every group to its desired capacity, as far as launches are possible now."""
    for group in world.groups.values():
        _end_lost_instances(world, group)
        if len(group.instances) > group.desired:
            _terminate(world, group, len(group.instances) - group.desired)
        elif len(group.instances) < group.desired and "Launch" not in group.suspended:
            _launch(world, group, group.desired - len(group.instances))


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


def _end_lost_instances(world: World, group: Group) -> None:
    """EC2 ends the instances of a Capacity Block from 30 minutes before its end."""
    known, now = world.reservations(), world.clock.now()
    lost = [
        one
        for one in group.instances
        if one.reservation_id in known
        and known[one.reservation_id].is_block
        and not known[one.reservation_id].accepts_launches(now)
    ]
    for one in lost:
        group.instances.remove(one)
        _note(
            world, group, "Successful", f"Terminating EC2 instance: {one.id}", "the Capacity Block is ending"
        )


def _terminate(world: World, group: Group, count: int) -> None:
    for one in group.instances[-count:]:
        _note(world, group, "Successful", f"Terminating EC2 instance: {one.id}", "the desired capacity fell")
    del group.instances[-count:]


def _launch(world: World, group: Group, count: int) -> None:
    reservations, targeted = _target(world, group)
    now = world.clock.now()
    for _ in range(count):
        usable = [
            one for one in reservations if one.accepts_launches(now) and _used(world, one.id) < one.count
        ]
        if targeted and not usable:
            states = (
                ", ".join(f"{one.id} is {one.state(now)}" for one in reservations) or "its target is gone"
            )
            _note(world, group, "Failed", "Launching a new EC2 instance", f"no reserved capacity: {states}")
            return
        instance = _new_instance(world, group, usable[0] if usable else None)
        group.instances.append(instance)
        _note(world, group, "Successful", f"Launching a new EC2 instance: {instance.id}", "")


def _new_instance(world: World, group: Group, reservation: Reservation | None) -> Instance:
    resource = world.find(AUTO_SCALING_GROUP, group.name)
    given: Json = resource.properties if resource else {}
    specification = template_specification(given) or {}
    data = world.data_of_group(group.name) or {}
    subnets = given.get("VPCZoneIdentifier", [])
    return Instance(
        id=world.new_id("i-", group.name),
        instance_type=data.get("InstanceType", ""),
        availability_zone=(world.zone_of_subnet(subnets[0]) or "") if subnets else "",
        template_version=str(specification.get("Version", "$Default")),
        reservation_id=reservation.id if reservation else "",
        lifecycle_state="Pending:Wait" if _launching_hooks(world, group.name) else "InService",
    )


def _launching_hooks(world: World, name: str) -> bool:
    return any(hook["LifecycleTransition"] == _LAUNCHING for hook in hooks_of(world, name))


def hooks_of(world: World, name: str) -> list[Json]:
    """Every lifecycle hook of a group: those inside it and those of their own, in `DescribeLifecycleHooks` form."""
    resource = world.find(AUTO_SCALING_GROUP, name)
    inside = resource.properties.get("LifecycleHookSpecificationList", []) if resource else []
    own = [
        {"LifecycleHookName": hook.physical_id.split("|")[-1], **hook.properties}
        for hook in world.of_type(LIFECYCLE_HOOK)
        if hook.properties.get("AutoScalingGroupName") == name
    ]
    defaults: Json = {"HeartbeatTimeout": 3600, "DefaultResult": "ABANDON", "AutoScalingGroupName": name}
    return [{**defaults, **hook, "GlobalTimeout": 172_800} for hook in [*inside, *own]]


def complete_lifecycle_action(world: World, name: str, instance_id: str, result: str) -> None:
    """Let an instance that waits in a launching hook go into service (CONTINUE) or end (ABANDON).

    Raises:
        ApiError: `ValidationError` where no such instance waits.
    """
    group = group_named(world, name)
    waiting = [
        one for one in group.instances if one.id == instance_id and one.lifecycle_state == "Pending:Wait"
    ]
    if not waiting:
        raise ApiError("ValidationError", f"No active Lifecycle Action found with instance ID {instance_id}")
    if result == "CONTINUE":
        waiting[0].lifecycle_state = "InService"
        return
    group.instances.remove(waiting[0])
    _note(
        world,
        group,
        "Cancelled",
        f"Launching a new EC2 instance: {instance_id}",
        "a lifecycle hook abandoned it",
    )
    settle(world)


def _note(world: World, group: Group, status: str, description: str, message: str) -> None:
    now = world.clock.now()
    activity: dict[str, Any] = {
        "ActivityId": world.new_id("", f"{group.name} activity", 32),
        "AutoScalingGroupName": group.name,
        "Description": description,
        "Cause": f"At {format_time(now)} the group had a desired capacity of {group.desired}.",
        "StartTime": now,
        "EndTime": now,
        "StatusCode": status,
        "StatusMessage": message,
        "Progress": 100,
    }
    group.activities.insert(0, activity)
