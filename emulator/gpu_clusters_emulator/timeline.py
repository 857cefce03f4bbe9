"""Move the clock, and let everything happen on the way: deliveries, warnings, ends, schedules.

Source of the block events: EC2 user guide, "Monitor Capacity Blocks using EventBridge" (one event when the
reservation starts, one forty minutes before it ends). The page exists in two editions, with `detail-type`
"Capacity Block Delivered" / "Capacity Block Expiration Warning" and with "Capacity Block Reservation Delivered" /
"Capacity Block Reservation Expiration Warning"; `World.block_event_names` chooses. Read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from . import batch_jobs, events, fleets, nodes, pcs
from .clock import Schedule, firings, format_time, parse_time
from .faults import ApiError
from .reservations import BLOCK_WARNING, Reservation
from .world import Json, Resource, Type, World

_SHORT_WAY, _NEAR, _SELDOM = timedelta(hours=6), timedelta(hours=1), timedelta(hours=6)


def move_clock(world: World, target: datetime) -> list[Json]:
    """Move the clock forward to `target`.

    Returns:
        What happened on the way, oldest first: time, kind and subject.

    Raises:
        ValueError: If `target` lies in the past of the emulator's clock.
    """
    start = world.clock.now()
    if target < start:
        raise ValueError(f"the clock cannot go back from {format_time(start)} to {format_time(target)}")
    log: list[Json] = []
    for moment, kind, subject, action in sorted(_happenings(world, start, target), key=lambda entry: entry[0]):
        log += _lived(world, moment)
        world.clock.set(moment)
        action()
        fleets.settle(world)
        log.append({"time": format_time(moment), "kind": kind, "subject": subject})
    log += _lived(world, target)
    world.clock.set(target)
    fleets.settle(world)
    return log


def _lived(world: World, until: datetime) -> list[Json]:
    """Let the programs on nodes run, if they do, and the jobs of AWS Batch."""
    log: list[Json] = []
    while (moment := batch_jobs.next_moment(world)) is not None and moment <= until:
        log += _nodes_ran(world, moment)
        world.clock.set(moment)
        batch_jobs.step(world)
        log.append({"time": format_time(moment), "kind": "jobs", "subject": ""})
    return log + _nodes_ran(world, until)


def _nodes_ran(world: World, until: datetime) -> list[Json]:
    if not world.program.is_running:
        return []
    return [{"time": format_time(at), "kind": "nodes", "subject": ""} for at in nodes.run_until(world, until)]


def _happenings(world: World, start: datetime, end: datetime) -> Iterator[tuple[datetime, str, str, Callable[[], Any]]]:
    for reservation in world.reservations().values():
        for moment, kind, action in _reservation_moments(world, reservation):
            if start < moment <= end:
                yield moment, kind, reservation.id, action
    for rule in world.of_type(Type.EVENTS_RULE):
        if rule.properties.get("ScheduleExpression"):
            for moment in _thinned(firings(rule.properties["ScheduleExpression"], start, end), world, start, end):
                yield moment, "schedule", rule.physical_id, partial(events.fire_schedule, world, rule)
    yield from _idle_nodes(world, start, end)
    for action_resource in world.of_type(Type.SCHEDULED_ACTION):
        for moment in _action_moments(action_resource, start, end):
            yield (
                moment,
                "scheduled action",
                action_resource.physical_id,
                partial(_act, world, action_resource),
            )


def _idle_nodes(world: World, start: datetime, end: datetime) -> Iterator[tuple[datetime, str, str, Callable[[], Any]]]:
    for node_group in world.of_type(Type.PCS_NODE_GROUP):
        idle_at = node_group.settings.get("IdleAt", start)
        if start < idle_at <= end:
            yield idle_at, "nodes idle", node_group.physical_id, partial(pcs.scale_down, world, node_group)


def _thinned(moments: Iterator[datetime], world: World, start: datetime, end: datetime) -> Iterator[datetime]:
    """Of the firings on a long way, those after anything that happens, those near the end, and one in six hours.

    A rule that fires every few minutes finds the same in between; a year of it would take minutes.
    """
    if end - start <= _SHORT_WAY:
        yield from moments
        return
    happened = [
        moment
        for reservation in world.reservations().values()
        for moment, _, _ in _reservation_moments(world, reservation)
    ]
    last = start
    for moment in moments:
        near = end - moment < _NEAR or any(timedelta(0) <= moment - one < _NEAR for one in happened)
        if near or moment - last >= _SELDOM:
            last = moment
            yield moment


def _reservation_moments(world: World, reservation: Reservation) -> Iterator[tuple[datetime, str, Callable[[], Any]]]:
    if reservation.fixed_state or not reservation.is_block:
        if reservation.ends_at and not reservation.fixed_state:
            yield reservation.ends_at, "reservation expired", _nothing
        return
    delivered, warning = world.block_event_names
    if reservation.starts_at:
        event = block_event(world, reservation, delivered)
        yield reservation.starts_at, "block delivered", partial(events.emit, world, event)
    if reservation.ends_at:
        event = block_event(world, reservation, warning)
        yield reservation.ends_at - BLOCK_WARNING, "block warning", partial(events.emit, world, event)
        yield reservation.terminates_at or reservation.ends_at, "block termination", _nothing
        yield reservation.ends_at, "block expired", _nothing


def _nothing() -> None:
    return None


def block_event(world: World, reservation: Reservation, detail_type: str) -> Json:
    """EC2's event about a Capacity Block."""
    end = format_time(reservation.ends_at) if reservation.ends_at else ""
    return {
        "source": "aws.ec2",
        "detail-type": detail_type,
        "resources": [world.arn("ec2", f"capacity-reservation/{reservation.id}")],
        "detail": {"capacity-reservation-id": reservation.id, "end-date": end},
    }


def _action_moments(action: Resource, start: datetime, end: datetime) -> Iterator[datetime]:
    given = action.properties
    first = parse_time(given["StartTime"]) if given.get("StartTime") else None
    last = parse_time(given["EndTime"]) if given.get("EndTime") else end
    if not given.get("Recurrence"):
        if first and start < first <= end:
            yield first
        return
    after = max(start, first) if first else start
    yield from Schedule(given["Recurrence"], first_weekday=0).between(after, min(end, last))


def _act(world: World, action: Resource) -> None:
    given = action.properties
    changes: Json = {key: given[key] for key in ("MinSize", "MaxSize", "DesiredCapacity") if key in given}
    group = world.groups.get(given["AutoScalingGroupName"])
    if group is None or "ScheduledActions" in group.suspended:
        return
    try:
        fleets.resize(world, group.name, changes)
    except ApiError as error:  # Auto Scaling logs a failed action and goes on
        group.activities.insert(0, {"StatusCode": "Failed", "StatusMessage": error.message})
