"""States whose query language is JSONata: Pass, Choice, Wait (skipped), Task, Map (inline), Succeed and Fail.

Source: Step Functions developer guide, "Transforming data with JSONata in Step Functions" (fields, the reserved
variable `$states`, an expression without a value is an error) and "Passing data between states with variables" (a
variable that is assigned in a state can be read from the next one on; those of a Map's iterations end with them), read
2026-11-23. The expressions are evaluated by jsonata-python, a port of the reference implementation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jsonata

Json = dict[str, Any]
#: Performs a task with its arguments.
Call = Callable[[Json, Any], Any]


#: What a state takes or returns is too long.
DATA_LIMIT = "States.DataLimitExceeded"


def general_names(error: str, *, is_task: bool) -> set[str]:
    """The names of all errors to which an error belongs: none for those that end an execution.

    Args:
        error: Its own name.
        is_task: Whether a task raised it.
    """
    if error in (DATA_LIMIT, "States.Runtime"):
        return set()
    return {"States.ALL", "States.TaskFailed"} if is_task else {"States.ALL"}


class QueryError(Exception):
    """An expression that fails, has no value, or has one of a wrong type."""


class Failed(Exception):
    """A Fail state: its error and its cause."""


def run_state(state: Json, sent: Any, context: Json, variables: Json, call: Call) -> tuple[str | None, Any]:
    """Run one state: the next state's name (None at the end) and its output.

    Args:
        state: The state.
        sent: Its input.
        context: The context object.
        variables: What earlier states assigned; what this one assigns is added.
        call: Performs a Task.

    Raises:
        QueryError: If an expression fails.
        Failed: In a Fail state.
        Exception: What `call` raises.
    """
    known = {**variables, "states": {"input": sent, "context": context}}
    kind = state["Type"]
    if kind == "Fail":
        raise Failed(state.get("Error", ""), state.get("Cause", ""))
    if kind == "Choice":
        return _choose(state, sent, known, variables)
    result = sent
    if kind == "Task":
        result = call(state, fill(state.get("Arguments", {}), known))
    elif kind == "Map":
        result = _each(state, sent, context, known, variables, call)
    elif kind not in ("Pass", "Wait", "Succeed"):
        raise QueryError(f"the state type {kind} is not emulated in JSONata")
    known["states"]["result"] = result
    output = _assigned(state, known, variables, result)
    return (None if kind == "Succeed" or state.get("End") else state["Next"]), output


def caught(state: Json, name: str, cause: str, sent: Any, variables: Json) -> tuple[str, Any] | None:
    """The next state and its input after an error; None if the state does not catch it."""
    for catcher in state.get("Catch", []):
        if {*general_names(name, is_task=True), name} & set(catcher["ErrorEquals"]):
            error = {"Error": name, "Cause": cause}
            known = {**variables, "states": {"input": sent, "errorOutput": error}}
            return catcher["Next"], _assigned(catcher, known, variables, error)
    return None


def fill(template: Any, known: Mapping[str, Any]) -> Any:
    """A value with every text that is an expression replaced by its value."""
    if isinstance(template, str):
        text = template.strip()
        return evaluate(text[2:-2], known) if text.startswith("{%") and text.endswith("%}") else template
    if isinstance(template, list):
        return [fill(one, known) for one in template]
    if isinstance(template, dict):
        return {key: fill(one, known) for key, one in template.items()}
    return template


def evaluate(expression: str, known: Mapping[str, Any]) -> Any:
    """The value of an expression.

    Raises:
        QueryError: If it fails, or has no value.
    """
    try:
        parsed = _parsed(expression)
        for name, value in known.items():
            parsed.assign(name, value)
        found = parsed.evaluate({})
    except jsonata.JException as error:
        raise QueryError(f"{expression.strip()}: {error}") from error
    if found is None:
        raise QueryError(f"{expression.strip()} has no value")
    return json.loads(json.dumps(found))


@cache
def _parsed(expression: str) -> jsonata.Jsonata:
    return jsonata.Jsonata(expression)


def _choose(state: Json, sent: Any, known: Json, variables: Json) -> tuple[str, Any]:
    for rule in state["Choices"]:
        holds = fill(rule["Condition"], known)
        if not isinstance(holds, bool):
            raise QueryError(f"{rule['Condition']} is not a boolean: {holds!r}")
        if holds:
            return rule["Next"], _assigned(rule, known, variables, sent)
    if "Default" not in state:
        raise QueryError("no rule matched and there is no default")
    return state["Default"], _assigned(state, known, variables, sent)


def _assigned(part: Json, known: Json, variables: Json, output: Any) -> Any:
    """The output of a state, a rule or a catcher, whose variables are assigned together."""
    made = fill(part.get("Assign", {}), known)
    found = fill(part["Output"], known) if "Output" in part else output
    variables.update(made)
    return found


def _each(state: Json, sent: Any, context: Json, known: Json, variables: Json, call: Call) -> list[Any]:
    items = fill(state["Items"], known) if "Items" in state else sent
    if not isinstance(items, list):
        raise QueryError(f"the items are no array: {items!r}")
    processor = state["ItemProcessor"]
    if processor.get("ProcessorConfig", {}).get("Mode", "INLINE") != "INLINE":
        raise QueryError("only an inline Map is emulated")
    return [_item(processor, item, context, dict(variables), call) for item in items]


def _item(processor: Json, item: Any, context: Json, variables: Json, call: Call) -> Any:
    name, data = processor["StartAt"], item
    while name is not None:
        state = processor["States"][name]
        try:
            name, data = run_state(state, data, context, variables, call)
        except QueryError:
            raise
        except Exception as error:
            goes = caught(state, getattr(error, "name", "States.TaskFailed"), str(error), data, variables)
            if goes is None:
                raise
            name, data = goes
    return data
