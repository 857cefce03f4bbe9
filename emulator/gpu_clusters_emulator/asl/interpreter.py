"""Run a state machine: Pass, Choice, Wait (skipped), Task, Succeed, Fail; Catch is followed, Retry is not.

Everything else (Map, Parallel, JSONata, activities, callbacks, variables) is refused by name rather than ignored.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..clock import format_time
from ..faults import ApiError
from ..paths import place
from .choices import holds
from .execution import Execution, Json, StateError
from .templates import Scope

if TYPE_CHECKING:
    from ..world import World

_MOST_STATES = 1_000  # a loop that never waits would run for ever on a clock that stands still
_SDK = ":states:::aws-sdk:"


def run(definition: Json, sent: Any, world: World) -> Execution:
    """Run a definition to its end.

    Args:
        definition: The machine in Amazon States Language (JSONPath).
        sent: The execution's input.
        world: What tasks act upon; its clock gives the entered times.
    """
    execution = Execution(name=world.new_id("", "execution", 32), input=sent)
    started = world.clock.now()
    name: str | None = definition["StartAt"]
    data = sent
    try:
        if definition.get("QueryLanguage", "JSONPath") != "JSONPath":
            raise StateError("States.Runtime", "JSONata is not emulated")
        while name is not None:
            if len(execution.states) == _MOST_STATES:
                raise StateError(
                    "States.Runtime", f"more than {_MOST_STATES:,} states; the clock does not move"
                )
            execution.states.append(name)
            context = _context(execution, name, started, world)
            name, data = _step(definition["States"][name], data, context, execution, world)
    except StateError as error:
        execution.status, execution.error, execution.cause = "FAILED", error.name, error.cause
        return execution
    execution.status, execution.output = "SUCCEEDED", data
    return execution


def _context(execution: Execution, name: str, started: datetime, world: World) -> Json:
    return {
        "Execution": {"Name": execution.name, "Input": execution.input, "StartTime": format_time(started)},
        "State": {"Name": name, "EnteredTime": format_time(world.clock.now()), "RetryCount": 0},
    }


def _step(
    state: Json, data: Any, context: Json, execution: Execution, world: World
) -> tuple[str | None, Any]:
    """Run one state: the next state's name (None at the end) and its data."""
    kind = state["Type"]
    try:
        selected = _selected(state.get("InputPath", "$"), Scope(data, context))
        if kind == "Choice":
            return _chosen(state, Scope(selected, context)), _selected(
                state.get("OutputPath", "$"), Scope(selected, context)
            )
        if kind == "Fail":
            raise StateError(state.get("Error", ""), state.get("Cause", ""))
        result = _result(kind, state, selected, context, execution, world)
        output = _placed(state.get("ResultPath", "$"), data, result)
    except StateError as error:
        if kind == "Fail":
            raise
        return _caught(state, error, data)
    output = _selected(state.get("OutputPath", "$"), Scope(output, context))
    return (None if kind == "Succeed" or state.get("End") else state["Next"]), output


def _selected(path: str | None, scope: Scope) -> Any:
    return {} if path is None else scope.value(path)


def _placed(path: str | None, data: Any, result: Any) -> Any:
    return data if path is None else place(path, data, result)


def _chosen(state: Json, scope: Scope) -> str:
    for rule in state["Choices"]:
        if holds(rule, scope):
            return str(rule["Next"])
    if "Default" not in state:
        raise StateError("States.NoChoiceMatched", "no rule matched and there is no default")
    return str(state["Default"])


def _result(kind: str, state: Json, selected: Any, context: Json, execution: Execution, world: World) -> Any:
    if kind == "Succeed":
        return selected
    if kind == "Wait":
        keys = ("Seconds", "SecondsPath", "Timestamp", "TimestampPath")
        execution.waited.append({key: state[key] for key in keys if key in state})
        return selected
    scope = Scope(selected, context)
    payload = scope.filled(state["Parameters"]) if "Parameters" in state else selected
    if kind == "Pass":
        return state.get("Result", payload)
    if kind != "Task":
        raise StateError("States.Runtime", f"the state type {kind} is not emulated")
    result = _task(state["Resource"], payload, execution, world)
    return Scope(result, context).filled(state["ResultSelector"]) if "ResultSelector" in state else result


def _task(resource: str, payload: Json, execution: Execution, world: World) -> Any:
    from ..api import call_from_states  # the models of the API run fleets, and events run this

    _, found, integration = resource.partition(_SDK)
    if not found:
        raise StateError("States.Runtime", f"the task {resource} is not emulated")
    service, action = integration.split(":")
    operation = action[:1].upper() + action[1:]
    execution.calls.append({"service": service, "operation": operation, "parameters": payload})
    try:
        return _plain(call_from_states(world, service, operation, payload))
    except ApiError as error:
        raise StateError(_error_name(service, error.code), error.message) from error


def _error_name(service: str, code: str) -> str:
    """An error that the API's model names keeps its name; others have one for the whole service."""
    prefix = "AutoScaling" if service == "autoscaling" else service.capitalize()
    return f"{prefix}.{code}" if code.endswith("Exception") else f"{prefix}.{prefix}Exception"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return format_time(value) if isinstance(value, datetime) else value


def _caught(state: Json, error: StateError, data: Any) -> tuple[str, Any]:
    for catcher in state.get("Catch", []):
        names = set(catcher["ErrorEquals"])
        general = {"States.ALL"} | ({"States.TaskFailed"} if state["Type"] == "Task" else set())
        if names & (general | {error.name}):
            described = {"Error": error.name, "Cause": error.cause}
            return str(catcher["Next"]), _placed(catcher.get("ResultPath", "$"), data, described)
    raise error
