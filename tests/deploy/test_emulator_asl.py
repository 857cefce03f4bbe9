"""The interpreter of the Amazon States Language."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpu_clusters_emulator.api import call_from_states
from gpu_clusters_emulator.state_machines import Scope, holds, intrinsic, run
from gpu_clusters_emulator.world import Group, World

Json = dict[str, Any]
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
DATA: Json = {
    "name": "trainers",
    "size": 4,
    "on": True,
    "nothing": None,
    "end": "2026-12-15T11:30:00Z",
    "later": "2026-12-15T12:30:00+01:00",
    "groups": [{"Desired": 2}],
}
CONTEXT: Json = {
    "State": {"EnteredTime": "2026-12-01T12:00:00Z"},
    "Execution": {"StartTime": "2026-12-01T11:59:00Z"},
}


@pytest.fixture
def world() -> World:
    made = World(call_from_states)
    made.clock.set(NOON)
    made.groups["trainers"] = Group(name="trainers", minimum=0, maximum=8, desired=0, created_at=NOON)
    return made


RULES = [
    ({"Variable": "$.name", "StringEquals": "trainers"}, True),
    ({"Variable": "$.name", "StringMatches": "tr*rs"}, True),
    ({"Variable": "$.name", "StringLessThan": "a"}, False),
    ({"Variable": "$.size", "NumericGreaterThanEquals": 4}, True),
    ({"Variable": "$.size", "NumericLessThan": 4}, False),
    ({"Variable": "$.size", "NumericEqualsPath": "$.groups[0].Desired"}, False),
    ({"Variable": "$.size", "StringEquals": "4"}, False),
    ({"Variable": "$.on", "BooleanEquals": True}, True),
    ({"Variable": "$.on", "NumericEquals": 1}, False),
    ({"Variable": "$.end", "TimestampEqualsPath": "$.later"}, True),
    ({"Variable": "$.end", "TimestampGreaterThanPath": "$$.State.EnteredTime"}, True),
    ({"Variable": "$$.State.EnteredTime", "TimestampLessThan": "2026-12-01T12:00:00Z"}, False),
    ({"Variable": "$$.State.EnteredTime", "TimestampLessThanEquals": "2026-12-01T12:00:00Z"}, True),
    ({"Variable": "$.name", "TimestampLessThan": "2026-12-01T12:00:00Z"}, False),
    ({"Variable": "$.missing", "IsPresent": False}, True),
    ({"Variable": "$.nothing", "IsNull": True}, True),
    ({"Variable": "$.end", "IsTimestamp": True}, True),
    ({"Not": {"Variable": "$.on", "BooleanEquals": True}}, False),
    ({"And": [{"Variable": "$.size", "IsNumeric": True}, {"Variable": "$.size", "NumericEquals": 4}]}, True),
    ({"Or": [{"Variable": "$.size", "NumericEquals": 1}, {"Variable": "$.name", "IsString": False}]}, False),
]


@pytest.mark.parametrize(("rule", "expected"), RULES)
def test_choice_rules(rule: Json, expected: bool) -> None:
    assert holds(rule, Scope(DATA, CONTEXT)) is expected


INTRINSICS = [
    ("States.Format('{} of {}', $.size, $.name)", "4 of trainers"),
    ("States.MathAdd($.size, -1)", 3),
    ("States.Array($.name, 'a, b', 1)", ["trainers", "a, b", 1]),
    ("States.ArrayLength($.groups)", 1),
    ("States.ArrayGetItem($.groups, 0)", {"Desired": 2}),
    ("States.StringToJson(States.JsonToString($.groups))", [{"Desired": 2}]),
    ("States.ArrayContains(States.StringSplit('a,b', ','), 'b')", True),
]


@pytest.mark.parametrize(("text", "expected"), INTRINSICS)
def test_intrinsic_functions(text: str, expected: Any) -> None:
    assert intrinsic(text, Scope(DATA, CONTEXT)) == expected


def _machine(states: Json, start: str = "Start") -> Json:
    return {"StartAt": start, "States": states}


SIZES: Json = {
    "Start": {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:autoscaling:describeAutoScalingGroups",
        "Parameters": {"AutoScalingGroupNames.$": "States.Array($.group)"},
        "ResultSelector": {"Desired.$": "$.AutoScalingGroups[0].DesiredCapacity"},
        "ResultPath": "$.found",
        "Next": "Enough",
    },
    "Enough": {
        "Type": "Choice",
        "Choices": [{"Variable": "$.found.Desired", "NumericEqualsPath": "$.wanted", "Next": "Done"}],
        "Default": "Pause",
    },
    "Pause": {"Type": "Wait", "Seconds": 60, "Next": "Size"},
    "Size": {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:autoscaling:setDesiredCapacity",
        "Parameters": {"AutoScalingGroupName.$": "$.group", "DesiredCapacity.$": "$.wanted"},
        "ResultPath": None,
        "Next": "Start",
        "Retry": [{"ErrorEquals": ["States.ALL"], "MaxAttempts": 3}],
        "Catch": [{"ErrorEquals": ["States.TaskFailed"], "ResultPath": "$.failure", "Next": "Gone"}],
    },
    "Done": {"Type": "Succeed"},
    "Gone": {"Type": "Fail", "Error": "NoGroup", "Cause": "the group is gone"},
}


def test_tasks_act_on_the_world(world: World) -> None:
    execution = run(_machine(SIZES), {"group": "trainers", "wanted": 3}, world)
    assert execution.status == "SUCCEEDED", execution.cause
    assert execution.states == ["Start", "Enough", "Pause", "Size", "Start", "Enough", "Done"]
    assert execution.output == {"group": "trainers", "wanted": 3, "found": {"Desired": 3}}
    assert execution.waited == [{"Seconds": 60}]
    assert world.groups["trainers"].desired == 3


def test_a_refused_call_is_caught(world: World) -> None:
    execution = run(_machine(SIZES), {"group": "trainers", "wanted": 9}, world)
    assert (execution.status, execution.error, execution.cause) == ("FAILED", "NoGroup", "the group is gone")
    assert world.groups["trainers"].desired == 0


def test_an_uncaught_error_fails_the_execution(world: World) -> None:
    states = {"Start": {**SIZES["Size"], "Next": "Done", "Catch": []}, "Done": {"Type": "Succeed"}}
    execution = run(_machine(states), {"group": "gone", "wanted": 1}, world)
    assert (execution.status, execution.error) == ("FAILED", "AutoScaling.AutoScalingException")
    assert "AutoScalingGroup name not found" in execution.cause


def _failing(times: int) -> dict[str, Any]:
    return {"service": "autoscaling", "operation": "SetDesiredCapacity", "error": "Throttling", "times": times}


@pytest.mark.parametrize(("times", "status"), [(3, "SUCCEEDED"), (4, "FAILED")])
def test_a_throttled_call_is_tried_again_as_often_as_the_state_says(world: World, times: int, status: str) -> None:
    world.failing_calls = [_failing(times)]
    execution = run(_machine(SIZES), {"group": "trainers", "wanted": 3}, world)
    assert execution.status == status
    assert execution.retries == ["AutoScaling.AutoScalingException"] * 3
    assert execution.seconds == 60 + 1 + 2 + 4, "the wait, and a delay that doubles"


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"DesiredCapacity": "many"}, "Invalid type for parameter DesiredCapacity"),
        ({"Desired": 3}, 'Unknown parameter in input: "Desired"'),
        ({"AutoScalingGroupName": ""}, "Invalid length for parameter AutoScalingGroupName"),
    ],
)
def test_a_call_is_held_against_the_model_of_its_service(world: World, changes: Json, cause: str) -> None:
    parameters = {"AutoScalingGroupName": "trainers", "DesiredCapacity": 3, **changes}
    state = {**SIZES["Size"], "Parameters": parameters, "Catch": [], "Next": "Done"}
    execution = run(_machine({"Start": state, "Done": {"Type": "Succeed"}}), {}, world)
    assert execution.status == "FAILED"
    assert cause in execution.cause


def test_an_execution_that_takes_too_long_times_out(world: World) -> None:
    world.failing_calls = [_failing(3)]
    execution = run({**_machine(SIZES), "TimeoutSeconds": 65}, {"group": "trainers", "wanted": 3}, world)
    assert (execution.status, execution.error) == ("TIMED_OUT", "States.Timeout")
    assert execution.states[-1] == "Size", "no Catch holds it up"


def test_pass_shapes_its_data(world: World) -> None:
    states = {
        "Start": {
            "Type": "Pass",
            "InputPath": "$.detail",
            "Parameters": {"id.$": "$['capacity-reservation-id']", "at.$": "$$.State.EnteredTime"},
            "ResultPath": "$.block",
            "OutputPath": "$.block",
            "End": True,
        }
    }
    execution = run(_machine(states), {"detail": {"capacity-reservation-id": "cr-1"}}, world)
    assert execution.output == {"id": "cr-1", "at": "2026-12-01T12:00:00Z"}


UNKNOWN = [
    ({"Start": {"Type": "Map", "End": True}}, "the state type Map is not emulated"),
    (
        {"Start": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "End": True}},
        "lambda:invoke is not emulated",
    ),
    (
        {"Start": {"Type": "Pass", "Parameters": {"x.$": "States.UUID()"}, "End": True}},
        "'States.UUID()' is not emulated",
    ),
    ({"Start": {"Type": "Pass", "InputPath": "$.missing", "End": True}}, "names nothing"),
    ({"Start": {"Type": "Pass", "Next": "Start"}}, "more than 1,000 states"),
]


@pytest.mark.parametrize(("states", "cause"), UNKNOWN)
def test_what_is_not_emulated_is_said(states: Json, cause: str, world: World) -> None:
    execution = run(_machine(states), {}, world)
    assert execution.status == "FAILED"
    assert cause in execution.cause


def describing(instances: int, *, name: str = "States.ALL") -> Any:
    """A run that describes a group with so many instances, and catches an error."""
    world = World(lambda *_: {"AutoScalingGroups": [{"Instances": ["x" * 400] * instances}]})
    world.clock.set(NOON)
    look = {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:autoscaling:describeAutoScalingGroups",
        "Arguments": {},
        "Output": {},
        "Retry": [{"ErrorEquals": ["States.ALL"]}],
        "Catch": [{"ErrorEquals": [name], "Next": "Caught"}],
        "Next": "Found",
    }
    states = {"Look": look, "Caught": {"Type": "Succeed"}, "Found": {"Type": "Succeed"}}
    return run({"QueryLanguage": "JSONata", "StartAt": "Look", "States": states}, {}, world)


def test_a_task_returns_so_much_and_no_more() -> None:
    assert describing(500).states == ["Look", "Found"]
    ended = describing(700)
    assert (ended.status, ended.error, ended.retries) == ("FAILED", "States.DataLimitExceeded", [])


def test_what_is_too_long_is_caught_by_its_own_name_alone() -> None:
    assert describing(700, name="States.TaskFailed").status == "FAILED"
    assert describing(700, name="States.DataLimitExceeded").states == ["Look", "Caught"]


def test_a_state_takes_so_much_and_no_more() -> None:
    machine = {"StartAt": "Pass", "States": {"Pass": {"Type": "Pass", "End": True}}}
    world = World(lambda *_: {})
    world.clock.set(NOON)
    assert run(machine, "x" * 262_142, world).status == "SUCCEEDED"
    assert run(machine, "x" * 262_143, world).error == "States.DataLimitExceeded"
