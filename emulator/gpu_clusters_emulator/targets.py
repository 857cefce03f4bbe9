"""Targets of load balancers: instances of Auto Scaling groups, registered while they are in service.

Nothing answers on a node: a target is healthy as soon as it is registered, until a test says that its health checks
fail. Source of the states and reasons: Elastic Load Balancing API, TargetHealth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from .groups import IN_SERVICE, TERMINATING, Group, Instance
from .models.listeners import users_of_target_group
from .world import AUTO_SCALING_GROUP, TARGET_GROUP, Resource, World

_DRAIN = "deregistration_delay.timeout_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A registered instance.

    Attributes:
        state: `healthy`, `unhealthy`, `draining` or `unused`.
        reason: The API's code for it; empty where healthy.
    """

    instance_id: str
    port: int
    availability_zone: str
    state: str
    reason: str


def targets_of(world: World, target_group: Resource) -> Iterator[Target]:
    """The registered targets of a target group."""
    for group in groups_of(world, target_group.physical_id):
        for instance in group.instances:
            found = _state(world, target_group, instance)
            if found is not None:
                yield Target(
                    instance_id=instance.id,
                    port=int(target_group.properties["Port"]),
                    availability_zone=instance.availability_zone,
                    state=found[0],
                    reason=found[1],
                )


def groups_of(world: World, target_group_arn: str) -> list[Group]:
    """The Auto Scaling groups whose instances are registered in a target group."""
    return [
        world.groups[one.physical_id]
        for one in world.of_type(AUTO_SCALING_GROUP)
        if target_group_arn in one.properties.get("TargetGroupARNs", []) and one.physical_id in world.groups
    ]


def is_unhealthy(world: World, group: Group, instance: Instance) -> bool:
    """Whether a load balancer of the group finds an instance unhealthy."""
    resource = world.find(AUTO_SCALING_GROUP, group.name)
    arns = resource.properties.get("TargetGroupARNs", []) if resource else []
    found = [world.find(TARGET_GROUP, arn) for arn in arns]
    states = [_state(world, one, instance) for one in found if one is not None]
    return any(state is not None and state[0] == "unhealthy" for state in states)


def _state(world: World, target_group: Resource, instance: Instance) -> tuple[str, str] | None:
    """State and reason of an instance; None while it is not registered."""
    if instance.lifecycle_state == TERMINATING:
        delay = timedelta(seconds=int(target_group.settings.get(_DRAIN, "300")))
        draining = world.clock.now() < instance.since + delay
        return ("draining", "Target.DeregistrationInProgress") if draining else None
    if instance.lifecycle_state != IN_SERVICE:
        return None
    if not users_of_target_group(target_group.physical_id, world):
        return "unused", "Target.NotInUse"
    if instance.id in world.failing_instances:
        return "unhealthy", "Target.FailedHealthChecks"
    return "healthy", ""
