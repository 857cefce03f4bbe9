"""What Auto Scaling refuses in lifecycle hooks, scheduled actions and warm pools.

Sources: API, PutLifecycleHook (HeartbeatTimeout 30 to 7200 seconds) and PutScheduledUpdateGroupAction (StartTime in
the past is an error); EC2 Auto Scaling user guide, "Use Capacity Blocks for machine learning workloads" (no warm
pool). Stored copies of 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..clock import format_time, parse_time
from ..faults import Fault

if TYPE_CHECKING:
    from ..world import World

_TIMEOUT_SECONDS = (30, 7_200)


def timeout_faults(hook: dict[str, Any]) -> Iterator[Fault]:
    """Faults of a hook, as its own resource or inside its group."""
    seconds = hook.get("HeartbeatTimeout")
    if seconds is not None and not _TIMEOUT_SECONDS[0] <= int(seconds) <= _TIMEOUT_SECONDS[1]:
        yield Fault(
            check="hook-timeout",
            message=f"a lifecycle hook waits 30 to 7,200 seconds, got {seconds}",
            path="HeartbeatTimeout",
        )


def _owner_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    name = properties.get("AutoScalingGroupName", "")
    if name not in world.groups:
        yield Fault(
            check="group-missing", message=f"the group {name!r} does not exist", path="AutoScalingGroupName"
        )


def lifecycle_hook_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::AutoScaling::LifecycleHook`."""
    yield from _owner_faults(properties, world)
    yield from timeout_faults(properties)


def warm_pool_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::AutoScaling::WarmPool`."""
    yield from _owner_faults(properties, world)
    data = world.data_of_group(properties.get("AutoScalingGroupName", "")) or {}
    if data.get("InstanceMarketOptions", {}).get("MarketType") == "capacity-block":
        yield Fault(check="block-with-warm-pool", message="a group with a Capacity Block has no warm pool")


def scheduled_action_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::AutoScaling::ScheduledAction`."""
    yield from _owner_faults(properties, world)
    if not properties.keys() & {"MinSize", "MaxSize", "DesiredCapacity"}:
        yield Fault(
            check="schedule-size", message="give at least one of MinSize, MaxSize and DesiredCapacity"
        )
    start = properties.get("StartTime")
    if start is not None and parse_time(start) <= world.clock.now():
        yield Fault(
            check="schedule-past",
            message=f"the start {start} is in the past; it is {format_time(world.clock.now())}",
            path="StartTime",
        )
