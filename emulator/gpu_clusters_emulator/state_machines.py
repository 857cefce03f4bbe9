"""A small interpreter of the Amazon States Language, on the emulator's clock.

It runs Pass, Choice, Wait, Task, Succeed and Fail, with Catch and Retry, and in JSONata also an inline Map and
variables. What Wait and Retry wait for is counted, and does not move the clock: an execution that would take longer
than its TimeoutSeconds times out. Everything else (Parallel, activities, callbacks) is refused by name.

What a state takes or returns, and what a task gets from its service, has at most 262,144 bytes. Sources: Step Functions
developer guide, "Quotas" (input or result of a task, state or execution: 256 KiB of UTF-8) and "Handling errors" (what
States.ALL does not catch or retry: States.DataLimitExceeded and States.Runtime).
"""

from __future__ import annotations

import hashlib
import json
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from . import jsonata_states
from .clock import format_time, parse_time
from .faults import ApiError
from .world import Caller, Json, World

_MOST_BYTES = 262_144
_MOST_STATES = 1_000  # a loop that never waits would run for ever on a clock that stands still
_SDK = ":states:::aws-sdk:"
_BOTOCORE_NAMES = {"resourcegroups": "resource-groups"}


def run(definition: Json, sent: Any, world: World, *, role: str = "") -> Execution:
    """Run a definition to its end; tasks act upon the world, and its clock gives the entered times.

    Args:
        definition: The definition in the Amazon States Language.
        sent: The input.
        world: The account.
        role: Name of the role whose permissions its tasks have.
    """
    execution = Execution(name=world.new_id("", "execution", 32), input=sent, role=role)
    started = world.clock.now()
    name: str | None = definition["StartAt"]
    data = sent
    try:
        language = definition.get("QueryLanguage", "JSONPath")
        variables: Json = {}
        while name is not None:
            if len(execution.states) == _MOST_STATES:
                raise StateError("States.Runtime", f"more than {_MOST_STATES:,} states; the clock rests")
            execution.states.append(name)
            context = _context(execution, name, started, world)
            state = definition["States"][name]
            if state.get("QueryLanguage", language) == "JSONata":
                name, data = _jsonata_step(state, data, context, variables, execution, world)
            else:
                name, data = _step(state, data, context, execution, world)
            _limited(data)
            if execution.seconds > definition.get("TimeoutSeconds", execution.seconds):
                raise TimedOut
    except StateError as error:
        execution.status, execution.error, execution.cause = error.outcome, error.name, error.cause
        return execution
    execution.status, execution.output = "SUCCEEDED", data
    return execution


def _context(execution: Execution, name: str, started: datetime, world: World) -> Json:
    return {
        "Execution": {"Name": execution.name, "Input": execution.input, "StartTime": format_time(started)},
        "State": {"Name": name, "EnteredTime": format_time(world.clock.now()), "RetryCount": 0},
    }


def _jsonata_step(
    state: Json, data: Any, context: Json, variables: Json, execution: Execution, world: World
) -> tuple[str | None, Any]:
    """Run one state whose query language is JSONata."""
    if state["Type"] == "Wait" and isinstance(state.get("Seconds"), int | float):
        execution.seconds += float(state["Seconds"])

    def call(task: Json, sent: Any) -> Any:
        return retried(task, execution, lambda: _task(task["Resource"], sent, execution, world))

    try:
        return jsonata_states.run_state(state, data, context, variables, call)
    except jsonata_states.Failed as error:
        raise StateError(*error.args) from error
    except jsonata_states.QueryError as error:
        failed = StateError("States.QueryEvaluationError", str(error))
    except StateError as error:
        failed = error
    goes = jsonata_states.caught(state, failed.name, failed.cause, data, variables)
    if goes is None:
        raise failed
    return goes


def _step(state: Json, data: Any, context: Json, execution: Execution, world: World) -> tuple[str | None, Any]:
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
        execution.seconds += float(state.get("Seconds", 0))
        return selected
    scope = Scope(selected, context)
    payload = scope.filled(state["Parameters"]) if "Parameters" in state else selected
    if kind == "Pass":
        return state.get("Result", payload)
    if kind != "Task":
        raise StateError("States.Runtime", f"the state type {kind} is not emulated")
    result = retried(state, execution, lambda: _task(state["Resource"], payload, execution, world))
    return Scope(result, context).filled(state["ResultSelector"]) if "ResultSelector" in state else result


def _task(resource: str, payload: Json, execution: Execution, world: World) -> Any:
    _, found, integration = resource.partition(_SDK)
    if not found:
        raise StateError("States.Runtime", f"the task {resource} is not emulated")
    service, action = integration.split(":")
    operation = action[:1].upper() + action[1:]
    execution.calls.append({"service": service, "operation": operation, "parameters": payload})
    world.ahead = timedelta(seconds=execution.seconds)
    try:
        caller = Caller(role=execution.role, session=execution.name)
        answer = world.api(world, _BOTOCORE_NAMES.get(service, service), operation, payload, caller)
        return _limited(_plain(answer))
    except ApiError as error:
        raise StateError(_error_name(service, error.code), error.message) from error
    finally:
        world.ahead = timedelta()


def _limited(data: Any) -> Any:
    """The data, if a state may have so much; else StateError."""
    size = len(json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode())
    if size > _MOST_BYTES:
        cause = f"{size:,} bytes, and a state takes and returns at most {_MOST_BYTES:,}"
        raise StateError(jsonata_states.DATA_LIMIT, cause)
    return data


def retried(state: Json, execution: Execution, attempt: Callable[[], Any]) -> Any:
    """Perform a task as often as its Retry states; StateError of the last attempt if it has none left.

    Jitter counts with its greatest value. Source: Step Functions developer guide, "Handling errors in Step Functions
    workflows" (one retry a second, twice as long each time, three times at most, by default).
    """
    used = [0] * len(state.get("Retry", []))
    while True:
        try:
            return attempt()
        except StateError as error:
            chosen = next((n for n, one in enumerate(state.get("Retry", [])) if _names(one, error, "Task")), None)
            if chosen is None or used[chosen] == state["Retry"][chosen].get("MaxAttempts", 3):
                raise
            retrier = state["Retry"][chosen]
            delay = retrier.get("IntervalSeconds", 1) * retrier.get("BackoffRate", 2.0) ** used[chosen]
            execution.seconds += min(delay, retrier.get("MaxDelaySeconds", delay))
            execution.retries.append(error.name)
            used[chosen] += 1


def _names(handler: Json, error: StateError, kind: str) -> bool:
    """Whether a Retry or a Catch is for an error."""
    general = jsonata_states.general_names(error.name, is_task=kind == "Task")
    return bool(set(handler["ErrorEquals"]) & {*general, error.name})


def _error_name(service: str, code: str) -> str:
    """An error that the API's model names keeps its name; others have one for the service."""
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
        if _names(catcher, error, state["Type"]):
            described = {"Error": error.name, "Cause": error.cause}
            return str(catcher["Next"]), _placed(catcher.get("ResultPath", "$"), data, described)
    raise error


class StateError(Exception):
    """An error inside a state, with the name that Retry and Catch see."""

    outcome = "FAILED"

    def __init__(self, name: str, cause: str) -> None:
        self.name = name
        self.cause = cause
        super().__init__(f"{name}: {cause}")


class TimedOut(StateError):
    """An execution that takes longer than its definition allows; no state can catch it."""

    outcome = "TIMED_OUT"

    def __init__(self) -> None:
        super().__init__("States.Timeout", "")


@dataclass(slots=True, kw_only=True)
class Execution:
    """One run.

    Attributes:
        role: Name of the role that its tasks call with.
        status: RUNNING, SUCCEEDED, FAILED or TIMED_OUT.
        states: Names of the states entered, in order.
        calls: The API calls its tasks made: service, operation and parameters.
        waited: `Wait` states that were skipped, with their settings.
        retries: Error of each attempt that was retried.
        seconds: What its waits and retries would take.
    """

    name: str
    input: Any
    role: str = ""
    status: str = "RUNNING"
    output: Any = None
    error: str = ""
    cause: str = ""
    states: list[str] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    waited: list[Json] = field(default_factory=list)
    retries: list[str] = field(default_factory=list)
    seconds: float = 0

    def document(self) -> Json:
        """The execution as JSON."""
        return asdict(self)


# Choice rules. Source: Amazon States Language specification, "Choice State", and Step Functions developer guide,
# "Choice" (comparison operators), read 2026-11-21.

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "Equals": operator.eq,
    "LessThan": operator.lt,
    "LessThanEquals": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanEquals": operator.ge,
}
_KINDS = ("String", "Numeric", "Boolean", "Timestamp")
_STRUCTURE = {"Variable", "Next", "Comment", "Assign", "Output"}


def holds(rule: Json, scope: Scope) -> bool:
    """Whether a choice rule is true; StateError if a variable is missing or the operator is not emulated."""
    if "And" in rule:
        return all(holds(part, scope) for part in rule["And"])
    if "Or" in rule:
        return any(holds(part, scope) for part in rule["Or"])
    if "Not" in rule:
        return not holds(rule["Not"], scope)
    ((name, operand),) = ((key, value) for key, value in rule.items() if key not in _STRUCTURE)
    if name == "IsPresent":
        return scope.has(rule["Variable"]) is bool(operand)
    value = scope.value(rule["Variable"])
    if name.startswith("Is"):
        return _is_kind(name, value) is bool(operand)
    return _compare(name, value, operand, scope)


def _compare(name: str, value: Any, operand: Any, scope: Scope) -> bool:
    if name.endswith("Path"):
        name, operand = name.removesuffix("Path"), scope.value(operand)
    if name == "StringMatches":
        expression = ".*".join(map(re.escape, str(operand).split("*")))
        return isinstance(value, str) and re.fullmatch(expression, value) is not None
    for kind in _KINDS:
        comparison = _COMPARE.get(name.removeprefix(kind)) if name.startswith(kind) else None
        if comparison is not None:
            left, right = _typed(kind, value), _typed(kind, operand)
            return left is not None and right is not None and comparison(left, right)
    raise StateError("States.Runtime", f"the comparison {name!r} is not emulated")


def _typed(kind: str, value: Any) -> Any:
    """The value as the comparison's kind; None where it is of another kind, so that the rule is false."""
    if kind == "String":
        return value if isinstance(value, str) else None
    if kind == "Boolean":
        return value if isinstance(value, bool) else None
    if kind == "Numeric":
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None
    try:
        return parse_time(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _is_kind(name: str, value: Any) -> bool:
    return {
        "IsNull": value is None,
        "IsString": isinstance(value, str),
        "IsBoolean": isinstance(value, bool),
        "IsNumeric": _typed("Numeric", value) is not None,
        "IsTimestamp": _typed("Timestamp", value) is not None,
    }[name]


# Payload templates, paths and intrinsic functions. Source: Step Functions developer guide, "Intrinsics for JSONPath
# states" and "Context object", read 2026-11-21.

_CALL = re.compile(r"States\.(\w+)\((.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a path can see: the state's data (`$`) and the context object (`$$`)."""

    data: Any
    context: Json

    def has(self, path: str) -> bool:
        """Whether a path names a value."""
        return is_present(path[1:], self.context) if path.startswith("$$") else is_present(path, self.data)

    def value(self, path: str) -> Any:
        """The value of a path or of an intrinsic function; StateError if the path names nothing."""
        if path.startswith("States."):
            return intrinsic(path, self)
        try:
            return lookup(path[1:], self.context) if path.startswith("$$") else lookup(path, self.data)
        except PathError as error:
            raise StateError("States.Runtime", f"the path {error} names nothing") from None

    def filled(self, template: Any) -> Any:
        """A payload template with every `name.$` replaced by its value."""
        if isinstance(template, list):
            return [self.filled(item) for item in template]
        if not isinstance(template, dict):
            return template
        return {
            key.removesuffix(".$"): self.value(item) if key.endswith(".$") else self.filled(item)
            for key, item in template.items()
        }


def intrinsic(text: str, scope: Scope) -> Any:
    """Evaluate an intrinsic function; StateError if it is not emulated, or fails."""
    found = _CALL.fullmatch(text.strip())
    function = _FUNCTIONS.get(found[1]) if found else None
    if found is None or function is None:
        raise StateError("States.Runtime", f"the intrinsic function {text!r} is not emulated")
    try:
        return function(*(_argument(part, scope) for part in _arguments(found[2])))
    except (TypeError, ValueError, IndexError) as error:
        raise StateError("States.IntrinsicFailure", f"{text}: {error}") from error


def _arguments(text: str) -> Iterator[str]:
    """Split at the commas outside quotes and brackets."""
    depth, quoted, start = 0, False, 0
    for position, character in enumerate(text):
        if character == "'" and text[position - 1 : position] != "\\":
            quoted = not quoted
        elif not quoted and character in "([":
            depth += 1
        elif not quoted and character in ")]":
            depth -= 1
        elif not quoted and depth == 0 and character == ",":
            yield text[start:position].strip()
            start = position + 1
    if text[start:].strip():
        yield text[start:].strip()


def _argument(text: str, scope: Scope) -> Any:
    if text.startswith("'"):
        return text[1:-1].replace("\\'", "'").replace("\\{", "{").replace("\\}", "}")
    if text.startswith(("$", "States.")):
        return scope.value(text)
    return json.loads(text)


def _format(template: str, *values: Any) -> str:
    parts = template.split("{}")
    if len(parts) != len(values) + 1:
        raise ValueError(f"{len(parts) - 1} places for {len(values)} values")
    words = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return parts[0] + "".join(word + part for word, part in zip(words, parts[1:], strict=True))


def _merge(left: Json, right: Json, deep: bool) -> Json:
    if deep:
        raise ValueError("a deep merge is not supported by Step Functions")
    return {**left, **right}


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Array": lambda *items: list(items),
    "ArrayContains": lambda items, item: item in items,
    "ArrayGetItem": lambda items, index: items[index],
    "ArrayLength": len,
    "Format": _format,
    "Hash": lambda text, name: hashlib.new(name.replace("-", "").lower(), str(text).encode()).hexdigest(),
    "JsonMerge": _merge,
    "JsonToString": lambda value: json.dumps(value, separators=(",", ":")),
    "MathAdd": lambda left, right: int(left) + int(right),
    "StringSplit": lambda text, separators: [part for part in re.split(f"[{re.escape(separators)}]", text) if part],
    "StringToJson": json.loads,
}


# Reference paths: `$`, `$.detail.end-date`, `$.Groups[0].Name`, `$['a b']`. The subset of JSONPath that names one
# value; wildcards, filters and slices are not emulated.

_STEP = re.compile(r"\.([A-Za-z0-9_\-]+)|\[(\d+)\]|\['([^']+)'\]|\[\"([^\"]+)\"\]")


class PathError(KeyError):
    """The path names nothing."""


def _steps(path: str) -> list[str | int]:
    if not path.startswith("$"):
        raise PathError(path)
    rest, steps = path[1:], list[str | int]()
    while rest:
        found = _STEP.match(rest)
        if found is None:
            raise PathError(f"{path}: {rest!r} is not emulated")
        name, index, single, double = found.groups()
        steps.append(int(index) if index is not None else name or single or double)
        rest = rest[found.end() :]
    return steps


def lookup(path: str, document: Any) -> Any:
    """The value that a path names; raises PathError if it names nothing."""
    value = document
    for step in _steps(path):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            raise PathError(path) from None
    return value


def is_present(path: str, document: Any) -> bool:
    """Whether a path names a value."""
    try:
        lookup(path, document)
    except PathError:
        return False
    return True


def place(path: str, document: Any, value: Any) -> Any:
    """A copy of `document` with `value` at `path`; PathError for an index, which no result path creates."""
    steps = _steps(path)
    if not steps:
        return value
    root = dict(document) if isinstance(document, dict) else {}
    node = root
    for step in steps[:-1]:
        if isinstance(step, int):
            raise PathError(path)
        below = node.get(step)
        node[step] = dict(below) if isinstance(below, dict) else {}
        node = node[step]
    node[str(steps[-1])] = value
    return root
