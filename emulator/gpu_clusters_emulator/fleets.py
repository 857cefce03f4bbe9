"""Auto Scaling groups at run time: sizes change, and instances come and go to meet them."""

from __future__ import annotations

from datetime import timedelta

from . import lifecycle
from .alarms import look_at_alarms
from .faults import ApiError
from .groups import IN_SERVICE, Group, Instance
from .launches import launch
from .rolling_updates import roll
from .targets import is_unhealthy
from .world import AUTO_SCALING_GROUP, Json, Resource, World


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
    roll(world, resource, group)
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


def complete_lifecycle_action(world: World, name: str, instance_id: str, hook: str, result: str) -> None:
    """End a hook's hold: a launching instance goes into service (CONTINUE) or ends (ABANDON), a leaving one ends.

    Raises:
        ApiError: `ValidationError` where the hook holds no such instance.
    """
    lifecycle.complete(world, group_named(world, name), instance_id, hook, result)
    settle(world)


def set_health(world: World, instance_id: str, status: str, *, respect_grace: bool) -> None:
    """Mark an instance, as SetInstanceHealth does.

    Raises:
        ApiError: `ValidationError` where there is no such instance.
    """
    for group in world.groups.values():
        for one in group.instances:
            if one.id == instance_id:
                if not (respect_grace and _in_grace(world, group, one)):
                    one.is_healthy = status == "Healthy"
                settle(world)
                return
    raise ApiError("ValidationError", f"Instance Id not found - No managed instance found: {instance_id}")


def set_answering(world: World, instance_id: str, *, answers: bool) -> Json:
    """Let the health checks of load balancers fail at an instance, or succeed again.

    Raises:
        ValueError: If there is no such instance.
    """
    if not any(one.id == instance_id for group in world.groups.values() for one in group.instances):
        raise ValueError(f"there is no instance {instance_id}")
    if answers:
        world.failing_instances.discard(instance_id)
    else:
        world.failing_instances.add(instance_id)
    settle(world)
    return {}


def settle(world: World) -> None:
    """Bring every group to its desired capacity, as far as launches are possible now."""
    for group in world.groups.values():
        _end_lost_instances(world, group)
        lifecycle.end_waits(world, group)
        _end_unhealthy_instances(world, group)
        surplus = len(group.staying) - group.desired
        if surplus > 0:
            for one in group.staying[-surplus:]:
                lifecycle.leave(world, group, one, "the desired capacity fell")
        elif surplus < 0 and "Launch" not in group.suspended:
            launch(world, group, -surplus)
        group.measure(world)
    look_at_alarms(world)


def _end_lost_instances(world: World, group: Group) -> None:
    """EC2 ends the instances of a Capacity Block from 30 minutes before its end."""
    known, now = world.reservations(), world.clock.now()
    for one in list(group.instances):
        reservation = known.get(one.reservation_id)
        if reservation is not None and reservation.is_block and not reservation.accepts_launches(now):
            group.instances.remove(one)
            reason = "the Capacity Block is ending"
            group.note(world, "Successful", f"Terminating EC2 instance: {one.id}", reason)


# EC2 Auto Scaling user guide, "View the reason for health check failures".
_TAKEN_OUT = "an instance was taken out of service in response to "
_HEALTH_CHECKS = {False: "a user health-check", True: "an ELB system health check failure"}


def _end_unhealthy_instances(world: World, group: Group) -> None:
    """Auto Scaling replaces what is marked unhealthy, and what a load balancer finds so after the grace period."""
    if {"HealthCheck", "ReplaceUnhealthy"} & group.suspended:
        return
    by_balancer = "ELB" in str(_properties(world, group).get("HealthCheckType", "EC2"))
    for one in group.staying:
        lost = by_balancer and is_unhealthy(world, group, one) and not _in_grace(world, group, one)
        if one.lifecycle_state == IN_SERVICE and (lost or not one.is_healthy):
            reason = "an ELB health check failed" if lost else "it was marked unhealthy"
            lifecycle.leave(world, group, one, reason, _TAKEN_OUT + _HEALTH_CHECKS[lost])


def _in_grace(world: World, group: Group, instance: Instance) -> bool:
    seconds = int(_properties(world, group).get("HealthCheckGracePeriod", 0))
    return world.clock.now() < instance.since + timedelta(seconds=seconds)


def _properties(world: World, group: Group) -> Json:
    resource = world.find(AUTO_SCALING_GROUP, group.name)
    return resource.properties if resource else {}
