"""CloudWatch alarms on what the emulator counts: rules that match, and sizes of Auto Scaling groups.

An alarm on other metrics stays without data. States are looked at whenever something happens; CloudWatch does so every
minute, with the data of periods that slide along (CloudWatch user guide, "Alarm evaluation window").

Where data points are missing, CloudWatch takes older ones before `TreatMissingData` counts, so that an
alarm stays on data that is several periods old (CloudWatch user guide, "Configuring how CloudWatch alarms treat missing
data": five points are looked at for three periods; FILL gives a metric a point in every period).
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any

from . import events
from .clock import parse_time
from .world import Json, Resource, Type, World

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanOrEqualToThreshold": operator.le,
    "LessThanThreshold": operator.lt,
}
# How many older points are looked at for those that are missing.
_OLDER = 2
_STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Average": lambda values: sum(values) / len(values),
    "Maximum": max,
    "Minimum": min,
    "SampleCount": lambda values: float(len(values)),
    "Sum": sum,
}
_SIZES = {"GroupDesiredCapacity": 0, "GroupInServiceInstances": 1, "GroupPendingInstances": 2}
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


#: The values of a metric after a moment and up to another one: metric, from, to.
Values = Callable[[Json, datetime, datetime], Sequence[float]]


class UnknownMetricError(Exception):
    """A metric that the emulator does not count."""


class _NoData(Exception):
    """A metric that has no data point."""


def look_at_alarms(world: World) -> None:
    """Bring the states up to date, and tell of every change."""
    for alarm in list(world.of_type(Type.ALARM)):
        before = world.alarm_states.get(alarm.physical_id, "INSUFFICIENT_DATA")
        try:
            state = evaluated(alarm.properties, partial(_values, world), world.clock.now())
        except UnknownMetricError:
            continue
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


def put_metric_data(world: World, params: Json) -> Json:
    """PutMetricData: values of now."""
    for one in params["MetricData"]:
        key = _key(params["Namespace"], one)
        world.metric_data.setdefault(key, []).append((world.clock.now(), float(one["Value"])))
    return {}


def get_metric_statistics(world: World, params: Json) -> Json:
    """GetMetricStatistics: what was put, by period; a period without values has no data point.

    Source: CloudWatch API, GetMetricStatistics: the start is inclusive, the end is not; periods begin at the start.
    """
    start, end = parse_time(params["StartTime"]), parse_time(params["EndTime"])
    period = timedelta(seconds=int(params["Period"]))
    points: dict[datetime, list[float]] = {}
    for at, value in world.metric_data.get(_key(params["Namespace"], params), []):
        if start <= at < end:
            points.setdefault(start + period * ((at - start) // period), []).append(value)
    wanted = params.get("Statistics", [])
    return {
        "Label": params["MetricName"],
        "Datapoints": [
            {"Timestamp": at, "Unit": "None", **{name: _STATISTICS[name](values) for name in wanted}}
            for at, values in sorted(points.items())
        ],
    }


def _key(namespace: str, metric: Json) -> tuple[str, ...]:
    dimensions = sorted(f"{one['Name']}={one['Value']}" for one in metric.get("Dimensions", []))
    return (namespace, metric["MetricName"], *dimensions)


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


def evaluated(alarm: Json, values: Values, now: datetime) -> str:
    """The state of an alarm.

    Args:
        alarm: Its properties, as a template has them.
        values: The data.
        now: When it is looked at.

    Raises:
        UnknownMetricError: What `values` raises.
        ValueError: If an expression cannot be read.
    """
    periods = int(alarm["EvaluationPeriods"])
    needed = int(alarm.get("DatapointsToAlarm", periods))
    length = timedelta(seconds=_period(alarm))
    found: list[bool] = []
    for number in range(periods + _OLDER):
        if number >= periods and len(found) == periods:
            break
        with suppress(_NoData):
            found.append(_is_breaching(alarm, values, now - (number + 1) * length, now - number * length))
        if found.count(False) > periods - needed:
            return "OK"
    treatment = alarm.get("TreatMissingData", "missing")
    if not found and treatment not in ("breaching", "notBreaching"):
        return "INSUFFICIENT_DATA"
    filled = periods - len(found) if treatment == "breaching" else 0
    return "ALARM" if sum(found[:periods]) + filled >= needed else "OK"


def _period(alarm: Json) -> float:
    stats = [query["MetricStat"] for query in alarm.get("Metrics", []) if "MetricStat" in query]
    return max(float(one["Period"]) for one in stats or [alarm])


def _is_breaching(alarm: Json, values: Values, since: datetime, until: datetime) -> bool:
    if "Metrics" in alarm:
        value = _computed(alarm["Metrics"], values, since, until)
    else:
        value = _point(values(alarm, since, until), alarm["Statistic"])
    return _COMPARISONS[alarm["ComparisonOperator"]](value, float(alarm["Threshold"]))


def _computed(queries: Sequence[Json], values: Values, since: datetime, until: datetime) -> float:
    """The value of the query that is returned, in one period.

    Raises:
        _NoData: If there is none.
        UnknownMetricError: What `values` raises.
        ValueError: If the expression cannot be read.
    """
    # The data point of a period has the time at which the period begins (CloudWatch user guide, "Metric math": EPOCH).
    known: Json = {"EPOCH": since.timestamp()}
    for query in queries:
        if "MetricStat" in query:
            stat = query["MetricStat"]
            known[query["Id"]] = None
            with suppress(_NoData):
                known[query["Id"]] = _point(values(stat["Metric"], since, until), stat["Stat"])
    [returned] = [query for query in queries if query.get("ReturnData", True)]
    expression = str(returned.get("Expression", returned["Id"])).replace(" AND ", " and ").replace(" OR ", " or ")
    return float(_calculated(_parsed(expression), known))


@cache
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _point(values: Sequence[float], statistic: str) -> float:
    if not values:
        raise _NoData
    return _STATISTICS[statistic](values)


def _values(world: World, metric: Json, since: datetime, until: datetime) -> Sequence[float]:
    dimensions = {one["Name"]: one["Value"] for one in metric.get("Dimensions", [])}
    place = (metric.get("Namespace"), metric.get("MetricName"))
    if place == ("AWS/Events", "TriggeredRules"):
        return [1.0 for at, rule in world.triggered if since < at <= until and rule == dimensions["RuleName"]]
    if place[0] == "AWS/AutoScaling" and place[1] in _SIZES and "AutoScalingGroupName" in dimensions:
        return _sizes(world, dimensions["AutoScalingGroupName"], _SIZES[str(place[1])], since, until)
    sent = world.metric_data.get(_key(metric["Namespace"], metric))
    if sent is None:
        raise UnknownMetricError(place)
    return [value for at, value in sent if since < at <= until]


def _sizes(world: World, name: str, column: int, since: datetime, until: datetime) -> list[float]:
    """A size in a period: what it was at the beginning, and what it became."""
    group = world.groups.get(name)
    rows = group.sizes if group else []
    earlier = [row for row in rows if row[0] <= since][-1:]
    return [float(row[1:][column]) for row in [*earlier, *(row for row in rows if since < row[0] <= until)]]


def _calculated(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of a metric math expression: arithmetic, comparisons, AND, OR, EPOCH, FILL and IF.

    Raises:
        _NoData: If a metric in it has none.
        ValueError: If there is anything else in it.
    """
    match node:
        case ast.Constant(value=int() | float()):
            return node.value
        case ast.Name(id=name) if name in values:
            if values[name] is None:
                raise _NoData
            return values[name]
        case ast.Call(func=ast.Name(id="FILL"), args=[ast.Name(id=name), other]) if name in values:
            return _calculated(other, values) if values[name] is None else values[name]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_calculated(left, values), _calculated(right, values))
        case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_calculated(left, values), _calculated(right, values))
        case ast.BoolOp(op=sign, values=parts):
            return (all if isinstance(sign, ast.And) else any)(bool(_calculated(part, values)) for part in parts)
        case ast.Call(func=ast.Name(id="EPOCH"), args=[ast.Name()]):
            return values["EPOCH"]
        case ast.Call(func=ast.Name(id="IF"), args=[condition, then, other]):
            return _calculated(then if _calculated(condition, values) else other, values)
    raise ValueError(f"the metric math expression {ast.unparse(node)!r} is not emulated")
