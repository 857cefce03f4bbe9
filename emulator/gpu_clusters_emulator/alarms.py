"""CloudWatch alarms on what the emulator counts: rules that match, and sizes of Auto Scaling groups.

An alarm on other metrics, or with more evaluation periods than one, stays without data. States are looked at whenever
something happens; CloudWatch does so every minute, with the data of a window that slides along (CloudWatch user guide,
"Alarm evaluation window").
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from . import events
from .world import Json, Resource, Type, World

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanOrEqualToThreshold": operator.le,
    "LessThanThreshold": operator.lt,
}
_MISSING = {"notBreaching": "OK", "breaching": "ALARM"}
_STATISTICS: Mapping[str, Callable[[list[float]], float]] = {"Sum": sum, "Minimum": min, "Maximum": max}
_SIZES = {"GroupDesiredCapacity": 0, "GroupInServiceInstances": 1}
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class _NoData(Exception):
    """A metric that has no data point."""


def look_at_alarms(world: World) -> None:
    """Bring the states up to date, and tell of every change."""
    for alarm in list(world.of_type(Type.ALARM)):
        state = _state(world, alarm)
        before = world.alarm_states.get(alarm.physical_id, "INSUFFICIENT_DATA")
        if state != before:
            world.alarm_states[alarm.physical_id] = state
            events.emit(world, _change(alarm, before, state))


def describe_alarms(world: World, params: Json) -> Json:
    """DescribeAlarms: names and states."""
    names = params.get("AlarmNames")
    return {
        "MetricAlarms": [
            {
                "AlarmName": alarm.physical_id,
                "StateValue": world.alarm_states.get(alarm.physical_id, "INSUFFICIENT_DATA"),
            }
            for alarm in world.of_type(Type.ALARM)
            if not names or alarm.physical_id in names
        ]
    }


def _change(alarm: Resource, before: str, state: str) -> Json:
    """Source: CloudWatch user guide, "Alarm events and EventBridge"."""
    return {
        "source": "aws.cloudwatch",
        "detail-type": "CloudWatch Alarm State Change",
        "resources": [alarm.attributes["Arn"]],
        "detail": {
            "alarmName": alarm.physical_id,
            "state": {"value": state},
            "previousState": {"value": before},
        },
    }


def _state(world: World, alarm: Resource) -> str:
    given = alarm.properties
    if given.get("EvaluationPeriods") != 1 or given.get("ComparisonOperator") not in _COMPARISONS:
        return "INSUFFICIENT_DATA"
    try:
        value = _value(world, given)
    except _NoData:
        return _MISSING.get(given.get("TreatMissingData", "missing"), "INSUFFICIENT_DATA")
    if value is None:
        return "INSUFFICIENT_DATA"
    return "ALARM" if _COMPARISONS[given["ComparisonOperator"]](value, float(given["Threshold"])) else "OK"


def _value(world: World, given: Json) -> float | None:
    """The value of an alarm's metric; None where something else than the emulator would know it.

    Raises:
        _NoData: If there is none.
        ValueError: If an expression cannot be read.
    """
    queries = given.get("Metrics")
    if queries is None:
        return _metric(world, given, given, str(given.get("Statistic")))
    found: dict[str, float | None] = {}
    missing = False
    for query in queries:
        if "MetricStat" not in query:
            continue
        stat = query["MetricStat"]
        try:
            found[query["Id"]] = _metric(world, stat["Metric"], stat, stat["Stat"])
        except _NoData:
            missing = True
    if None in found.values():
        return None
    if missing:
        raise _NoData
    [returned] = [query for query in queries if query.get("ReturnData", True)]
    if "Expression" not in returned:
        return found[returned["Id"]]
    return float(_calculated(ast.parse(returned["Expression"], mode="eval").body, found))


def _metric(world: World, metric: Json, stat: Json, statistic: str) -> float | None:
    since = world.clock.now() - timedelta(seconds=float(stat["Period"]))
    dimensions = {one["Name"]: one["Value"] for one in metric.get("Dimensions", [])}
    place = (metric.get("Namespace"), metric.get("MetricName"))
    if statistic not in _STATISTICS:
        return None
    if place == ("AWS/Events", "TriggeredRules"):
        values = [1.0 for moment, rule in world.triggered if moment > since and rule == dimensions["RuleName"]]
    elif place[0] == "AWS/AutoScaling" and place[1] in _SIZES and "AutoScalingGroupName" in dimensions:
        values = _sizes(world, dimensions["AutoScalingGroupName"], _SIZES[str(place[1])], since)
    else:
        return None
    if not values:
        raise _NoData
    return _STATISTICS[statistic](values)


def _sizes(world: World, name: str, column: int, since: datetime) -> list[float]:
    """A size in the time since then: what it was at the beginning, and what it became."""
    group = world.groups.get(name)
    rows = group.sizes if group else []
    earlier = [row for row in rows if row[0] <= since][-1:]
    return [float(row[1:][column]) for row in [*earlier, *(row for row in rows if row[0] > since)]]


def _calculated(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of a metric math expression: arithmetic, comparisons and IF.

    Raises:
        ValueError: If there is anything else in it.
    """
    match node:
        case ast.Constant(value=int() | float()):
            return node.value
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_calculated(left, values), _calculated(right, values))
        case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_calculated(left, values), _calculated(right, values))
        case ast.Call(func=ast.Name(id="IF"), args=[condition, then, other]):
            return _calculated(then if _calculated(condition, values) else other, values)
    raise ValueError(f"the metric math expression {ast.unparse(node)!r} is not emulated")
