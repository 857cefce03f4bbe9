"""An instance's way into service and out of it: lifecycle hooks, what ends them, and what follows.

Source: EC2 Auto Scaling user guide, "How lifecycle hooks work": an abandoned launch is terminated and tried again, a
terminating instance goes whatever the result; a hook that nobody completes ends with its default result at its
time-out.
"""

from __future__ import annotations

from datetime import timedelta

from . import events
from .faults import ApiError
from .groups import IN_SERVICE, PENDING, TERMINATING, Group, Instance
from .world import AUTO_SCALING_GROUP, LIFECYCLE_HOOK, Json, World

LAUNCHING_TRANSITION = "autoscaling:EC2_INSTANCE_LAUNCHING"
TERMINATING_TRANSITION = "autoscaling:EC2_INSTANCE_TERMINATING"


def hooks_of(world: World, name: str, transition: str = "") -> list[Json]:
    """Every lifecycle hook of a group: those inside it and those of their own, in `DescribeLifecycleHooks` form."""
    resource = world.find(AUTO_SCALING_GROUP, name)
    inside = resource.properties.get("LifecycleHookSpecificationList", []) if resource else []
    own = [
        {"LifecycleHookName": hook.physical_id.split("|")[-1], **hook.properties}
        for hook in world.of_type(LIFECYCLE_HOOK)
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
    """Take an instance out of the group: at once, or when the terminating hooks let go of it."""
    in_service = instance.lifecycle_state == IN_SERVICE
    if not (in_service and _hold(world, group, instance, TERMINATING_TRANSITION, TERMINATING)):
        group.instances.remove(instance)
    group.note(world, "Successful", f"Terminating EC2 instance: {instance.id}", reason, cause)


def complete(world: World, group: Group, instance_id: str, hook: str, result: str) -> None:
    """End one hook's hold on an instance.

    Raises:
        ApiError: `ValidationError` where the hook holds no such instance.
    """
    held = [one for one in group.instances if one.id == instance_id and hook in one.waits]
    if not held:
        raise ApiError("ValidationError", f"No active Lifecycle Action found with instance ID {instance_id}")
    _end_wait(world, group, held[0], hook, result)


def extend(world: World, group: Group, instance_id: str, hook: str) -> None:
    """Start a hook's time anew (RecordLifecycleActionHeartbeat).

    Raises:
        ApiError: `ValidationError` where the hook holds no such instance.
    """
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


def _hold(world: World, group: Group, instance: Instance, transition: str, state: str) -> bool:
    """Let the hooks of a transition hold an instance; False if there are none."""
    now = world.clock.now()
    hooks = hooks_of(world, group.name, transition)
    instance.waits = {hook["LifecycleHookName"]: now + _timeout(hook) for hook in hooks}
    instance.lifecycle_state = state if hooks else IN_SERVICE
    instance.since = now
    return bool(hooks)


def _end_wait(world: World, group: Group, instance: Instance, hook: str, result: str) -> None:
    if not instance.is_leaving and result == "ABANDON":
        group.instances.remove(instance)
        instance.waits = {}
        group.note(
            world,
            "Cancelled",
            f"Launching a new EC2 instance: {instance.id}",
            f"the lifecycle hook {hook} abandoned it",
        )
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
