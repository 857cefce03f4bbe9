"""What the programs on nodes do where no test does it: they complete their hooks, and log, with the role of the node.

They act while a stack is deleted, while one waits for its nodes, and whenever the seed `nodes` is given. What
IAM or Auto Scaling refuses them they do not try again: the hook runs out of time, or the event is lost.

Whether CloudFormation waits for instances to come into service is not documented, and reports differ: either can be
chosen, by the seed `waits_for_in_service`. How long it waits, and that a deletion sets the size to 0 and lets the
hooks run, is read off the handlers of the registry schema: they have a limit of time, and the permissions
`UpdateAutoScalingGroup` and `DeleteAutoScalingGroup`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial

from . import fleets
from .clock import format_time
from .faults import ApiError, Fault, Refused
from .models.load_balancing import deregistration_delay
from .permissions import authorize, private_address, role_of_instance
from .schemas import resource_schema
from .world import DEREGISTERING, IN_SERVICE, PENDING, Caller, Group, Instance, Json, Program, Resource, Type, World

_DEFAULT_MINUTES = 120  # of a handler that names no time; registry meta-schema
_Attempt = Callable[[World, Caller, Group, Instance], None]


def program_of(document: Json) -> Program:
    """Read the seed `nodes`: `boot_minutes`, `drain_minutes` and `log_group`."""
    return Program(
        boot=timedelta(minutes=float(document.get("boot_minutes", 5))),
        drain=timedelta(minutes=float(document.get("drain_minutes", 1))),
        log_group=str(document.get("log_group", "")),
        is_running=True,
    )


def run_until(world: World, limit: datetime, groups: list[Group] | None = None) -> Iterator[datetime]:
    """Let the nodes act, and hooks run out of time, up to `limit`; each moment is given when it is past."""
    while moments := [moment for moment in _moments(world, groups) if moment <= limit]:
        moment = max(min(moments), world.clock.now())
        world.clock.set(moment)
        for group in groups or list(world.groups.values()):
            for one in [one for one in group.instances if _acts_at(world, one) <= moment]:
                _act(world, group, one)
        fleets.settle(world)
        yield moment


def _moments(world: World, groups: list[Group] | None) -> Iterator[datetime]:
    for group in groups or list(world.groups.values()):
        for one in group.instances:
            if one.lifecycle_state == DEREGISTERING:
                yield one.since + deregistration_delay(world, group)
            elif one.waits:
                yield min(*one.waits.values(), _acts_at(world, one))


def _acts_at(world: World, instance: Instance) -> datetime:
    """When the program on a node acts next; never, if it has done what it can."""
    if not instance.waits or instance.has_acted:
        return datetime.max.replace(tzinfo=instance.since.tzinfo)
    program = world.program
    return instance.since + (program.boot if instance.lifecycle_state == PENDING else program.drain)


def _act(world: World, group: Group, instance: Instance) -> None:
    """Log, and complete the hooks that hold a node, as far as its role may."""
    instance.has_acted = True
    try:
        caller = Caller(role=role_of_instance(world, instance), session=instance.id)
    except ValueError:  # without a role it has no credentials
        return
    for attempt in (_log, *(_completion(hook) for hook in list(instance.waits))):
        try:
            attempt(world, caller, group, instance)
        except ApiError as error:
            world.lost.append({"time": format_time(world.clock.now()), "node": instance.id, "error": str(error)})


def _log(world: World, caller: Caller, _group: Group, instance: Instance) -> None:
    given = world.program.log_group
    if not given:
        return
    groups = list(world.of_type("AWS::Logs::LogGroup"))
    found = next((one.physical_id for one in groups if given in (one.physical_id, one.logical_id)), None)
    name = found or given
    stream = f"{instance.id}/{private_address(instance.id)}"  # as gpunode names it
    authorize(world, caller, "logs", "PutLogEvents", {"logGroupName": name, "logStreamName": stream})
    if found is None:
        raise ApiError("ResourceNotFoundException", "The specified log group does not exist.")
    event = {"time": format_time(world.clock.now()), "log_group": name, "node": instance.id}
    world.logged.append({**event, "state": instance.lifecycle_state})


def _completion(hook: str) -> _Attempt:
    def complete(world: World, caller: Caller, group: Group, instance: Instance) -> None:
        params = {"AutoScalingGroupName": group.name}
        authorize(world, caller, "autoscaling", "CompleteLifecycleAction", params)
        fleets.complete(world, group, instance.id, hook, "CONTINUE")

    return complete


def await_in_service(world: World, resource: Resource) -> None:
    """Let time pass until a new group has its instances in service; Refused if it does not come to that."""
    group = world.groups[resource.physical_id]
    limit = world.clock.now() + _limit("create")
    moments = run_until(world, limit, [group])
    while _in_service(group) < group.desired:
        if next(moments, None) is None:
            break
    else:
        return
    world.clock.set(limit)
    sizes = f"{_in_service(group)}/{group.minimum}/{group.desired}"
    message = f"Group did not stabilize. {{current/minimum/target}} group size = {{{sizes}}}."
    world.groups.pop(group.name)
    world.remove(Type.AUTO_SCALING_GROUP, group.name)
    raise Refused(f"{Type.AUTO_SCALING_GROUP} {resource.logical_id}", [Fault("not-stabilized", message)])


def _all_in_service(instances: list[Instance]) -> bool:
    return all(one.lifecycle_state == IN_SERVICE for one in instances)


def _in_service(group: Group) -> int:
    return sum(one.lifecycle_state == IN_SERVICE for one in group.instances)


def _limit(handler: str) -> timedelta:
    schema = resource_schema(Type.AUTO_SCALING_GROUP)
    handlers = schema.document.get("handlers", {}) if schema is not None else {}
    return timedelta(minutes=handlers.get(handler, {}).get("timeoutInMinutes", _DEFAULT_MINUTES))


def empty(world: World, group: Group) -> None:
    """Take every instance out of a group, as its terminating hooks let it; Refused if that takes too long."""
    limit = world.clock.now() + _limit("delete")
    group.minimum = group.desired = 0
    fleets.settle(world)
    for _ in run_until(world, limit, [group]):
        pass
    if group.instances:
        message = f"{len(group.instances)} instances are still in their terminating hooks"
        raise Refused(f"{Type.AUTO_SCALING_GROUP} {group.name}", [Fault("not-stabilized", message)])


# The update policy `AutoScalingInstanceRefresh`. Sources: aws-cdk-lib 2.275, CfnAutoScalingInstanceRefresh (members and
# that it excludes a rolling update); EC2 Auto Scaling API model, RefreshPreferences (the least and the most that are
# healthy, in percent of the desired capacity; where both leave no room, one is launched before one ends; bake time;
# alarms that fail it). The limit of time is the schema's.

_LEAST_HEALTHY = 90


def refresh(world: World, resource: Resource) -> None:
    """Replace the instances of an older launch template as the policy asks; Refused if it does not come to its end."""
    policy = resource.update_policy.get("AutoScalingInstanceRefresh")
    group = world.groups[resource.physical_id]
    if policy is None or not _old(world, group):
        return
    preferences = policy.get("Preferences", {})
    limit = world.clock.now() + _limit("update")
    least, most = _bounds(preferences, resource.properties.get("InstanceMaintenancePolicy", {}))
    desired = group.desired
    spare, extra = desired - -(-desired * least // 100), desired * most // 100 - desired
    if not spare and not extra:
        extra = 1  # neither bound leaves room: one is launched first, above the most
    at_once = max(spare, extra)
    while old := _old(world, group):
        batch = old[:at_once]
        if extra:
            group.extra = len(batch)
            made = [] if "Launch" in group.suspended else fleets.launch(world, group, len(batch))
            is_served = partial(_all_in_service, made) if len(made) == len(batch) else lambda: False
            _pass(world, group, limit, is_served)
            if world.clock.now() >= limit:
                batch = []
        group.extra = 0
        for one in batch:
            fleets.leave(world, group, one, "an instance refresh")
        fleets.settle(world)
        _pass(world, group, limit, lambda: _in_service(group) == len(group.instances) == desired)
        if alarms := _alarms(world, preferences):
            _fail(resource, f"the instance refresh failed: {', '.join(alarms)} went into ALARM")
        if world.clock.now() >= limit:
            _fail(resource, f"the instance refresh did not end in time: {len(_old(world, group))} instances are old")
    world.clock.set(world.clock.now() + timedelta(seconds=float(preferences.get("BakeTime", 0))))


def _bounds(preferences: Json, maintenance: Json) -> tuple[int, int]:
    bounds = {"MinHealthyPercentage": _LEAST_HEALTHY, "MaxHealthyPercentage": 100, **maintenance, **preferences}
    return int(bounds["MinHealthyPercentage"]), int(bounds["MaxHealthyPercentage"])


def _old(world: World, group: Group) -> list[Instance]:
    present = fleets.current_template(world, group)
    return [one for one in group.staying if (one.template_id, one.template_version) != present]


def _pass(world: World, group: Group, limit: datetime, is_done: Callable[[], bool]) -> None:
    moments = run_until(world, limit, [group])
    while not is_done():
        if next(moments, None) is None:
            world.clock.set(limit)
            return


def _alarms(world: World, preferences: Json) -> list[str]:
    """Names of the alarms that fail it: the policy may name them by reference."""
    wanted = json.dumps(preferences.get("AlarmSpecification", {}).get("Alarms", []))
    return [
        one.physical_id
        for one in world.of_type(Type.ALARM)
        if world.alarm_states.get(one.physical_id) == "ALARM"
        and any(f'"{name}"' in wanted for name in (one.logical_id, one.physical_id))
    ]


def _fail(resource: Resource, message: str) -> None:
    raise Refused(f"{Type.AUTO_SCALING_GROUP} {resource.logical_id}", [Fault("instance-refresh", message)])
