"""Each alarm on nodes is raised on a simulated day, and clears, with the data that nodes write and the rules of CloudWatch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cdk_gpu_clusters.compute.alarms import node_alarms
from cdk_gpu_clusters.compute.state_machine import undelivered_alarm
from cdk_gpu_clusters.rules.fleet import AlarmSettings
from gpu_clusters_emulator.alarms import evaluated
from simulated_day import FLEET, MINUTES, START, Metrics, simulated_day

MIDNIGHT = datetime.fromtimestamp(START, UTC)
ALARMS = {
    path.rpartition("/")[2]: one["Properties"]
    for path, one in node_alarms(FLEET, AlarmSettings(idle_minutes=60), has_gpus=True).items()
}


@pytest.fixture(scope="module")
def day() -> Metrics:
    return simulated_day()


def changes(day: Metrics, alarm: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The time of each change of an alarm that is looked at every minute, and its new state."""
    dimensions = tuple((one["Name"], one["Value"]) for one in alarm["Dimensions"])
    found = day.values[alarm["Namespace"], alarm["MetricName"], dimensions]

    def values(_: Any, since: datetime, until: datetime) -> Sequence[float]:
        return [
            value
            for minute in range(int(since.timestamp()) // 60 + 1, int(until.timestamp()) // 60 + 1)
            for value in found.get(minute, [])
        ]

    before = "OK"
    for minute in range(30, MINUTES):
        now = MIDNIGHT + timedelta(minutes=minute)
        state = evaluated(alarm, values, now)
        if state != before:
            yield f"{now:%H:%M}", state
        before = state


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("UnhealthyNode", [("14:00", "ALARM"), ("14:29", "OK")]),
        # One value, and none after it: CloudWatch takes older points before it counts missing ones.
        ("Xid", [("14:00", "ALARM"), ("14:15", "OK")]),
        ("BootFailure", [("14:12", "ALARM"), ("14:27", "OK")]),
        # Idle from 20:00: an hour, and the 5 minutes of which the least value counts.
        ("Idle", [("21:04", "ALARM")]),
    ],
)
def test_each_alarm_is_raised_and_clears(day: Metrics, name: str, expected: list[tuple[str, str]]) -> None:
    assert list(changes(day, ALARMS[name])) == expected


def test_an_idle_alarm_clears_when_a_gpu_is_active_or_no_node_is_there(day: Metrics) -> None:
    alarm = ALARMS["Idle"]
    key = (alarm["Namespace"], alarm["MetricName"], tuple((one["Name"], one["Value"]) for one in alarm["Dimensions"]))
    for after, cleared in ({START // 60 + 22 * 60: [0.0, 7200.0]}, "22:00"), ({}, "22:14"):
        kept = {minute: values for minute, values in day.values[key].items() if minute < START // 60 + 22 * 60}
        assert list(changes(Metrics({key: {**kept, **after}}), alarm)) == [("21:04", "ALARM"), (cleared, "OK")]


def test_an_alarm_on_events_that_wait_is_raised_and_clears() -> None:
    """EventBridge could not deliver an event at 10:00; someone emptied the queue at 10:30. SQS sends a value a minute."""
    (alarm,) = (one["Properties"] for one in undelivered_alarm().values())
    dimensions = [{"Name": "QueueName", "Value": "undelivered"}]
    key = (alarm["Namespace"], alarm["MetricName"], (("QueueName", "undelivered"),))
    values = {START // 60 + minute: [float(600 <= minute < 630)] for minute in range(MINUTES)}
    assert list(changes(Metrics({key: values}), {**alarm, "Dimensions": dimensions})) == [
        ("10:00", "ALARM"),
        ("10:34", "OK"),
    ]


def test_the_other_alarms_are_on_launches() -> None:
    """`LaunchLoop` is raised and cleared with nodes in `tests/deploy/test_launch_loop.py`."""
    assert set(ALARMS) == {"UnhealthyNode", "Xid", "BootFailure", "Idle"}
