"""Event patterns, schedules, and what a target is sent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpu_clusters_emulator import provisioning
from gpu_clusters_emulator.clock import firings
from gpu_clusters_emulator.events import emit, matches, target_input
from gpu_clusters_emulator.world import World

Json = dict[str, Any]
EVENT: Json = {
    "source": "aws.ec2",
    "detail-type": "Capacity Block Delivered",
    "resources": ["arn:aws:ec2:us-east-1:123456789012:capacity-reservation/cr-1", "other"],
    "detail": {"capacity-reservation-id": "cr-1", "size": 4, "status-details": {"status": "UPDATE_COMPLETE"}},
}

PATTERNS: list[tuple[Json, bool]] = [
    ({"source": ["aws.ec2"]}, True),
    ({"source": ["aws.ecs", "aws.ec2"]}, True),
    ({"source": ["aws.ecs"]}, False),
    ({"detail-type": [{"prefix": "Capacity Block"}]}, True),
    ({"detail-type": [{"suffix": "Warning"}]}, False),
    ({"detail": {"capacity-reservation-id": ["cr-1"]}}, True),
    ({"detail": {"capacity-reservation-id": ["cr-2"]}}, False),
    ({"detail": {"status-details": {"status": ["CREATE_COMPLETE", "UPDATE_COMPLETE"]}}}, True),
    ({"detail": {"status-details": {"status": [{"anything-but": ["UPDATE_COMPLETE"]}]}}}, False),
    ({"resources": [{"suffix": "cr-1"}]}, True),
    ({"detail": {"missing": [{"exists": False}], "size": [{"exists": True}]}}, True),
    ({"detail": {"missing": ["x"]}}, False),
    ({"detail": {"missing": {"deeper": [{"exists": False}]}}}, True),
    ({"detail": {"size": [{"numeric": [">", 3, "<=", 4]}]}}, True),
    ({"detail": {"size": ["4"]}}, False),
    ({"source": [{"wildcard": "aws.*2"}]}, True),
    ({"$or": [{"source": ["x"]}, {"detail": {"size": [4]}}]}, True),
]


@pytest.mark.parametrize(("pattern", "expected"), PATTERNS)
def test_event_patterns(pattern: Json, expected: bool) -> None:
    assert matches(pattern, EVENT) is expected


def test_an_operator_that_is_not_emulated_is_said() -> None:
    with pytest.raises(ValueError, match="'cidr' is not emulated"):
        matches({"source": [{"cidr": "10.0.0.0/8"}]}, EVENT)


SCHEDULES = [
    ("cron(30 11 1 12 ? 2026)", ["2026-12-01T11:30"]),
    ("cron(50 10 * * ? *)", ["2026-11-30T10:50", "2026-12-01T10:50"]),
    ("cron(0 8 ? * TUE *)", ["2026-12-01T08:00"]),
    ("cron(0 8 ? * 2 *)", ["2026-11-30T08:00"]),
    ("cron(0/30 23 30 NOV ? *)", ["2026-11-30T23:00", "2026-11-30T23:30"]),
    ("cron(0 8 1 12 ? 2027)", []),
    ("rate(1 day)", ["2026-12-01T00:00", "2026-12-02T00:00"]),
]


@pytest.mark.parametrize(("expression", "expected"), SCHEDULES)
def test_schedules(expression: str, expected: list[str]) -> None:
    start, end = (datetime(2026, month, day, tzinfo=UTC) for month, day in ((11, 30), (12, 2)))
    assert [moment.strftime("%Y-%m-%dT%H:%M") for moment in firings(expression, start, end)] == expected


@pytest.mark.parametrize("expression", ["cron(0 25 * * ? *)", "cron(0 8)", "every day"])
def test_a_schedule_that_cannot_be_read_is_refused(expression: str) -> None:
    moment = datetime(2026, 11, 30, tzinfo=UTC)
    with pytest.raises(ValueError, match=r"fields|within|invalid literal"):
        list(firings(expression, moment, moment))


INPUTS = [
    ({}, EVENT),
    ({"Input": '{"size": 0}'}, {"size": 0}),
    ({"InputPath": "$.detail.size"}, 4),
    (
        {
            "InputTransformer": {
                "InputPathsMap": {"id": "$.detail.capacity-reservation-id", "n": "$.detail.size"},
                "InputTemplate": '{"reservation": <id>, "again": "<id>", "size": <n>, "text": "<n> in \\"<id>\\""}',
            }
        },
        {"reservation": "cr-1", "again": "cr-1", "size": 4, "text": '4 in "cr-1"'},
    ),
]


@pytest.mark.parametrize(("target", "expected"), INPUTS)
def test_what_a_target_is_sent(target: Json, expected: Any) -> None:
    assert target_input(target, EVENT) == expected


def test_a_delivery_that_fails_is_kept() -> None:
    world = World()
    targets = [{"Id": "one", "Arn": "arn:aws:sqs:us-east-1:123456789012:one", "InputPath": "$.missing"}]
    for name, pattern in (("late", {"source": ["aws.ec2"]}), ("odd", {"source": [{"cidr": "10.0.0.0/8"}]})):
        properties = {"EventPattern": pattern, "Targets": targets}
        provisioning.create(world, "AWS::Events::Rule", name, properties, "stack")
    emit(world, EVENT)
    assert [one["error"] for one in world.deliveries] == [
        "PathError: '$.missing'",
        "the event pattern operator 'cidr' is not emulated",
    ]
