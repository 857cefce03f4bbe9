"""States of alarms, as the CloudWatch user guide has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpu_clusters_emulator.alarms import evaluated, get_metric_statistics, put_metric_data
from gpu_clusters_emulator.world import World

NOW = datetime(2026, 11, 23, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def state(points: str, **changes: Any) -> str:
    """Of an alarm on three minutes; the newest point is the last one: X is breaching, 0 is not, - is missing."""
    alarm = {
        "Metrics": [
            {"Id": "short", "Expression": "wanted"},
            {"Id": "wanted", "MetricStat": {"Metric": {}, "Period": 60, "Stat": "Maximum"}, "ReturnData": False},
        ],
        "EvaluationPeriods": 3,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "Threshold": 1,
    }

    def values(_: Mapping[str, Any], since: datetime, until: datetime) -> Sequence[float]:
        assert until - since == MINUTE
        ago = int((NOW - until) / MINUTE)
        found = points.replace(" ", "")[-1 - ago] if ago < len(points.replace(" ", "")) else "-"
        return {"X": [1.0], "0": [0.0], "-": []}[found]

    return evaluated({**alarm, **changes}, values, NOW)


@pytest.mark.parametrize(
    ("points", "breaching", "not_breaching"),
    [
        ("0 - X - X", "OK", "OK"),
        ("- - - - -", "ALARM", "OK"),
        ("0 X X - X", "ALARM", "ALARM"),
        ("- - X - X", "ALARM", "OK"),
        ("X X X X X", "ALARM", "ALARM"),
        ("X X X X 0", "OK", "OK"),
    ],
)
def test_older_points_count_before_missing_ones_do(points: str, breaching: str, not_breaching: str) -> None:
    """User guide, "Configuring how CloudWatch alarms treat missing data": three of three, five points looked at."""
    assert state(points, TreatMissingData="breaching") == breaching
    assert state(points, TreatMissingData="notBreaching") == not_breaching


def test_an_alarm_without_any_data_has_too_little() -> None:
    assert state("- - - - -") == "INSUFFICIENT_DATA"


@pytest.mark.parametrize(("needed", "expected"), [(1, "ALARM"), (2, "ALARM"), (3, "OK")])
def test_some_of_the_points_may_be_enough(needed: int, expected: str) -> None:
    assert state("0 0 X 0 X", DatapointsToAlarm=needed) == expected


def test_fill_gives_every_period_a_point() -> None:
    filled = [
        {"Id": "short", "Expression": "FILL(wanted, 0)"},
        {"Id": "wanted", "MetricStat": {"Metric": {}, "Period": 60, "Stat": "Maximum"}, "ReturnData": False},
    ]
    alone = {"EvaluationPeriods": 1, "TreatMissingData": "notBreaching"}
    assert state("0 0 0 X -", **alone) == "ALARM"
    assert state("0 0 0 X -", **alone, Metrics=filled) == "OK"


def test_statistics_are_of_whole_periods() -> None:
    """CloudWatch API, GetMetricStatistics: no data point for a period without values; the end is exclusive."""
    world, dimensions = World(), [{"Name": "Fleet", "Value": "a"}]
    for minutes, value in ((0, 1), (0, 3), (2, 5), (3, 7)):
        world.clock.set(NOW + minutes * MINUTE)
        metric = {"MetricName": "NodeSeverity", "Dimensions": dimensions, "Value": value}
        put_metric_data(world, {"Namespace": "GpuCluster", "MetricData": [metric]})
    asked: dict[str, Any] = {
        "Namespace": "GpuCluster",
        "MetricName": "NodeSeverity",
        "Dimensions": dimensions,
        "StartTime": NOW.isoformat(),
        "EndTime": NOW + 3 * MINUTE,
        "Period": 60,
        "Statistics": ["SampleCount", "Maximum"],
    }
    found = get_metric_statistics(world, asked)["Datapoints"]
    assert [(one["SampleCount"], one["Maximum"]) for one in found] == [(2, 3), (1, 5)]
    assert get_metric_statistics(world, {**asked, "Dimensions": []})["Datapoints"] == []
