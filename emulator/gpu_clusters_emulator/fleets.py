"""Auto Scaling groups at run time: sizes change, and instances come and go to meet them."""

from __future__ import annotations

from datetime import datetime, timedelta

from . import events
from .alarms import look_at_alarms
from .faults import ApiError
from .models.load_balancing import deregistration_delay, is_unhealthy
from .models.networks import free_addresses
from .reservations import Reservation
from .world import (
    DEREGISTERING,
    IN_SERVICE,
    PENDING,
    TERMINATING,
    Group,
    Instance,
    Json,
    Resource,
    Type,
    World,
    template_specification,
)


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
    """The group of that name; ApiError in Auto Scaling's words if there is none."""
    group = world.auto_scaling_groups().get(name)
    if group is None:
        raise ApiError("ValidationError", f"AutoScalingGroup name not found - null: {name}")
    return group


def set_desired(world: World, name: str, desired: int) -> None:
    """Change the desired capacity through the API; ApiError outside minimum and maximum."""
    group = group_named(world, name)
    if not group.minimum <= desired <= group.maximum:
        below, above = f"below min value {group.minimum}", f"above max value {group.maximum}"
        bound = below if desired < group.minimum else above
        message = f"New SetDesiredCapacity value {desired} is {bound} for the AutoScalingGroup."
        raise ApiError("ValidationError", message)
    group.desired = desired
    settle(world)


def resize(world: World, name: str, changes: Json) -> None:
    """Change the sizes together; the desired capacity follows the bounds; ApiError if they do not fit."""
    group = group_named(world, name)
    least, most = int(changes.get("MinSize", group.minimum)), int(changes.get("MaxSize", group.maximum))
    if least > most:
        message = f"Max bound, {most}, must be greater than or equal to min bound, {least}"
        raise ApiError("ValidationError", message)
    desired = int(changes.get("DesiredCapacity", min(max(group.desired, least), most)))
    if not least <= desired <= most:
        bounds = f"min size:{least} and max size:{most}"
        message = f"Desired capacity:{desired} must be between the specified {bounds}"
        raise ApiError("ValidationError", message)
    group.minimum, group.maximum, group.desired = least, most, desired
    settle(world)


def complete_lifecycle_action(world: World, name: str, instance_id: str, hook: str, result: str) -> None:
    """End a hook's hold: a launching instance goes into service (CONTINUE) or ends (ABANDON), a leaving one ends."""
    complete(world, group_named(world, name), instance_id, hook, result)
    settle(world)


def terminate(world: World, instance_id: str, *, decrement: bool) -> None:
    """End one instance by its terminating hooks; ApiError if it is in no group, or leaving already.

    Source: EC2 Auto Scaling API, TerminateInstanceInAutoScalingGroup.
    """
    for group in world.auto_scaling_groups().values():
        for one in group.staying:
            if one.id == instance_id:
                if decrement and group.desired <= group.minimum:
                    message = "Currently, desiredSize equals minSize. Terminating without replacement is not possible"
                    raise ApiError("ValidationError", message)
                group.desired -= int(decrement)
                leave(world, group, one, "a user request")
                settle(world)
                return
    raise ApiError(
        "ValidationError", f"Instance Id not found - No managed instance found for instance ID: {instance_id}"
    )


def set_health(world: World, instance_id: str, status: str, *, respect_grace: bool) -> None:
    """Mark an instance, as SetInstanceHealth does; ApiError if there is no such instance."""
    for group in world.auto_scaling_groups().values():
        for one in group.instances:
            if one.id == instance_id:
                if not (respect_grace and _in_grace(world, group, one)):
                    one.is_healthy = status == "Healthy"
                settle(world)
                return
    raise ApiError("ValidationError", f"Instance Id not found - No managed instance found: {instance_id}")


def lose(world: World, instance_id: str) -> None:
    """End an instance behind Auto Scaling's back: no hook holds it, and the group launches another."""
    for group in world.groups.values():
        for one in [one for one in group.instances if one.id == instance_id]:
            group.instances.remove(one)
            group.note(world, "Successful", f"Terminating EC2 instance: {one.id}", "EC2 terminated it")
    settle(world)


def set_answering(world: World, instance_id: str, *, answers: bool) -> Json:
    """Let the health checks of load balancers fail at an instance, or succeed; ValueError if there is none."""
    if not any(one.id == instance_id for one in world.instances()):
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
        _end_deregistrations(world, group)
        end_waits(world, group)
        _end_unhealthy_instances(world, group)
        surplus = len(group.staying) - group.desired - group.extra
        if surplus > 0:
            for one in group.staying[-surplus:]:
                leave(world, group, one, "the desired capacity fell")
        elif len(group.staying) < group.desired and "Launch" not in group.suspended:
            launch(world, group, group.desired - len(group.staying))
        group.measure(world)
    look_at_alarms(world)


def _end_lost_instances(world: World, group: Group) -> None:
    """What the end of a reservation does to its instances.

    EC2 ends those of a Capacity Block from 30 minutes before its end. Those of another reservation run on, and bill on
    demand: EC2 user guide, "Cancel a Capacity Reservation", and "Capacity Reservation concepts" of end dates.
    """
    known, now = world.reservations(), world.clock.now()
    for one in list(group.instances):
        reservation = known.get(one.reservation_id)
        if reservation is not None and reservation.is_block:
            if not reservation.accepts_launches(now):
                group.instances.remove(one)
                reason = "the Capacity Block is ending"
                group.note(world, "Successful", f"Terminating EC2 instance: {one.id}", reason)
        elif one.reservation_id and (reservation is None or reservation.state(now) == "expired"):
            one.reservation_id = ""
            group.note(world, "Successful", f"{one.id} runs on demand", "its reservation is over")


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
            leave(world, group, one, reason, _TAKEN_OUT + _HEALTH_CHECKS[lost])


def _in_grace(world: World, group: Group, instance: Instance) -> bool:
    seconds = int(_properties(world, group).get("HealthCheckGracePeriod", 0))
    return world.clock.now() < instance.since + timedelta(seconds=seconds)


def _properties(world: World, group: Group) -> Json:
    return world.group_properties(group.name)


# An instance's way into service and out of it: lifecycle hooks, what ends them, and what follows. Source: EC2 Auto
# Scaling user guide, "How lifecycle hooks work": an abandoned launch is terminated and tried again, a terminating
# instance goes whatever the result; a hook that nobody completes ends with its default result at its time-out.

LAUNCHING_TRANSITION = "autoscaling:EC2_INSTANCE_LAUNCHING"
TERMINATING_TRANSITION = "autoscaling:EC2_INSTANCE_TERMINATING"


def hooks_of(world: World, name: str, transition: str = "") -> list[Json]:
    """Every lifecycle hook of a group: those inside it and those of their own, in `DescribeLifecycleHooks` form."""
    inside = world.properties_of(Type.AUTO_SCALING_GROUP, name).get("LifecycleHookSpecificationList", [])
    own = [
        {"LifecycleHookName": hook.physical_id.split("|")[-1], **hook.properties}
        for hook in world.of_type(Type.LIFECYCLE_HOOK)
        if hook.properties.get("AutoScalingGroupName") == name
    ]
    defaults: Json = {"HeartbeatTimeout": 3600, "DefaultResult": "ABANDON", "AutoScalingGroupName": name}
    found = [{**defaults, **hook, "GlobalTimeout": 172_800} for hook in [*inside, *own]]
    return [hook for hook in found if transition in ("", hook["LifecycleTransition"])]


def enter(world: World, group: Group, instance: Instance) -> None:
    """Put a new instance into the group: in service, or held by the launching hooks."""
    group.instances.append(instance)
    _hold(world, group, instance, LAUNCHING_TRANSITION, PENDING)
    group.note(world, "Successful", f"Launching a new EC2 instance: {instance.id}")


def leave(world: World, group: Group, instance: Instance, reason: str, cause: str = "") -> None:
    """Take an instance out of the group: its load balancers let it go first, and then its terminating hooks."""
    group.note(world, "Successful", f"Terminating EC2 instance: {instance.id}", reason, cause)
    if instance.lifecycle_state != IN_SERVICE:
        group.instances.remove(instance)
        return
    instance.lifecycle_state, instance.since = DEREGISTERING, world.clock.now()
    _end_deregistrations(world, group)


def _end_deregistrations(world: World, group: Group) -> None:
    """Hand instances that their load balancers have let go to the terminating hooks, or end them.

    Source: EC2 Auto Scaling user guide, "How lifecycle hooks work", steps 4 and 5: an instance is deregistered, and the
    deregistration is over, before a hook puts it into `Terminating:Wait`.
    """
    for one in [one for one in group.instances if one.lifecycle_state == DEREGISTERING]:
        ends = one.since + deregistration_delay(world, group)
        if ends <= world.clock.now() and not _hold(world, group, one, TERMINATING_TRANSITION, TERMINATING, ends):
            group.instances.remove(one)


def complete(world: World, group: Group, instance_id: str, hook: str, result: str) -> None:
    """End one hook's hold on an instance; ApiError if it holds no such instance."""
    held = [one for one in group.instances if one.id == instance_id and hook in one.waits]
    if not held:
        raise ApiError("ValidationError", f"No active Lifecycle Action found with instance ID {instance_id}")
    _end_wait(world, group, held[0], hook, result)


def extend(world: World, group: Group, instance_id: str, hook: str) -> None:
    """Start a hook's time again (RecordLifecycleActionHeartbeat); ApiError if it holds no such instance."""
    for one in group.instances:
        if one.id == instance_id and hook in one.waits:
            one.waits[hook] = world.clock.now() + _timeout(_named(world, group, hook))
            return
    raise ApiError("ValidationError", f"No active Lifecycle Action found with instance ID {instance_id}")


def end_waits(world: World, group: Group) -> None:
    """Give every hook that timed out its default result."""
    now = world.clock.now()
    for instance in list(group.instances):
        for hook in [name for name, deadline in instance.waits.items() if deadline <= now]:
            if hook in instance.waits:
                default = _named(world, group, hook).get("DefaultResult", "ABANDON")
                _end_wait(world, group, instance, hook, default)


def _hold(
    world: World, group: Group, instance: Instance, transition: str, state: str, since: datetime | None = None
) -> bool:
    """Let the hooks of a transition hold an instance; False if there are none."""
    now = since or world.clock.now()
    hooks = hooks_of(world, group.name, transition)
    instance.waits = {hook["LifecycleHookName"]: now + _timeout(hook) for hook in hooks}
    instance.lifecycle_state = state if hooks else IN_SERVICE
    instance.since, instance.has_acted = now, False
    return bool(hooks)


def _end_wait(world: World, group: Group, instance: Instance, hook: str, result: str) -> None:
    if not instance.is_leaving and result == "ABANDON":
        group.instances.remove(instance)
        instance.waits = {}
        launching = f"Launching a new EC2 instance: {instance.id}"
        group.note(world, "Cancelled", launching, f"the lifecycle hook {hook} abandoned it")
        events.emit(world, _unsuccessful(group, instance, hook))
        return
    del instance.waits[hook]
    if instance.waits:
        return
    if instance.is_leaving:
        group.instances.remove(instance)
    else:
        instance.lifecycle_state, instance.since = IN_SERVICE, world.clock.now()


def _unsuccessful(group: Group, instance: Instance, hook: str) -> Json:
    """Source: EC2 Auto Scaling user guide, "Amazon EC2 Auto Scaling event reference", unsuccessful scaling events."""
    return {
        "source": "aws.autoscaling",
        "detail-type": "EC2 Instance Launch Unsuccessful",
        "detail": {
            "StatusCode": "Failed",
            "AutoScalingGroupName": group.name,
            "EC2InstanceId": instance.id,
            "StatusMessage": f"Instance failed to complete user's Lifecycle Action: {hook} was abandoned",
        },
    }


def _named(world: World, group: Group, hook: str) -> Json:
    return next((one for one in hooks_of(world, group.name) if one["LifecycleHookName"] == hook), {})


def _timeout(hook: Json) -> timedelta:
    return timedelta(seconds=int(hook.get("HeartbeatTimeout", 0)))


# Launches of instances: where they stand, which reservation they use, and when there is none. A launch succeeds when
# the reservation that the launch template targets accepts launches now and has room; nothing else (quota,
# insufficient capacity, boot) is modelled.


def launch(world: World, group: Group, count: int) -> list[Instance]:
    """Launch instances into a group; fewer where reserved capacity runs out, which the activities tell."""
    reservations, targeted = _target(world, group)
    now = world.clock.now()
    made: list[Instance] = []
    for _ in range(count):
        usable = [one for one in reservations if one.accepts_launches(now) and _used(world, one.id) < one.count]
        if targeted and not usable:
            states = ", ".join(f"{one.id} is {one.state(now)}" for one in reservations)
            reason = f"no reserved capacity: {states or 'its target is gone'}"
            group.note(world, "Failed", "Launching a new EC2 instance", reason)
            break
        instance = _new_instance(world, group, usable[0] if usable else None)
        free = free_addresses(world, instance.subnet_id)
        if free is not None and free < instance.addresses:
            reason = f"InsufficientFreeAddressesInSubnet: {instance.subnet_id} has {free} for {instance.addresses}"
            group.note(world, "Failed", "Launching a new EC2 instance", reason)
            break
        made.append(instance)
        enter(world, group, instance)
    return made


def current_template(world: World, group: Group) -> tuple[str, str]:
    """Id and version of the launch template that a group uses now."""
    specification = template_specification(_properties(world, group)) or {}
    found = world.launch_template(specification)
    return (found.physical_id if found else ""), str(specification.get("Version", "$Default"))


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
    return sum(one.reservation_id == reservation_id for one in world.instances())


def _new_instance(world: World, group: Group, reservation: Reservation | None) -> Instance:
    template_id, version = current_template(world, group)
    data = world.data_of_group(group.name) or {}
    interfaces = data.get("NetworkInterfaces", [])
    subnet = _subnet(world, group)
    return Instance(
        id=world.new_id("i-", group.name),
        instance_type=data.get("InstanceType") or str(_properties(world, group).get("InstanceType", "")),
        availability_zone=world.zone_of_subnet(subnet) or "",
        subnet_id=subnet,
        addresses=sum(one.get("InterfaceType") != "efa-only" for one in interfaces) or 1,
        template_id=template_id,
        template_version=version,
        reservation_id=reservation.id if reservation else "",
        lifecycle_state=IN_SERVICE,
        since=world.clock.now(),
        launched=world.clock.now(),
    )


def _subnet(world: World, group: Group) -> str:
    """A subnet of the zone with the fewest instances of the group: Auto Scaling keeps its zones balanced."""
    subnets: list[str] = _properties(world, group).get("VPCZoneIdentifier", []) or [""]
    taken = [one.availability_zone for one in group.instances]
    return min(subnets, key=lambda subnet: (taken.count(world.zone_of_subnet(subnet) or ""), subnets.index(subnet)))


# CloudFormation's rolling update of an Auto Scaling group, by `AutoScalingRollingUpdate`. It takes no time: an
# instance that is replaced ends at once, and the new one is in service at once, whatever hooks and pauses say.
# Source: CloudFormation user guide, "UpdatePolicy attribute" (instances that do not match the present launch
# template are replaced, `MaxBatchSize` at a time, one if it is left out).


def roll(world: World, resource: Resource, group: Group) -> None:
    """Replace the instances of an older launch template, if the update policy asks for it."""
    policy = resource.update_policy.get("AutoScalingRollingUpdate")
    if policy is None:
        return
    present = current_template(world, group)
    old = [one for one in group.staying if (one.template_id, one.template_version) != present]
    size = max(1, int(policy.get("MaxBatchSize", 1)))
    for start in range(0, len(old), size):
        batch = old[start : start + size]
        for one in batch:
            group.instances.remove(one)
            group.note(world, "Successful", f"Terminating EC2 instance: {one.id}", "a rolling update")
        for made in launch(world, group, len(batch)):
            made.lifecycle_state, made.waits = IN_SERVICE, {}
