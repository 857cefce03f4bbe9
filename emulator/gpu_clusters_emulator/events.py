"""EventBridge: rules that match an event, and their targets.

A target that is a state machine runs at once, to its end. Every other target is recorded and not called.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Mapping
from typing import Any

from .clock import format_time
from .faults import ApiError
from .permissions import lets_service, require, role_name
from .state_machines import Execution, lookup, run
from .world import Caller, Json, Resource, Type, World


def emit(world: World, event: Json) -> list[Json]:
    """Put an event on the default bus.

    Args:
        event: At least `source`, `detail-type` and `detail`; the other fields are filled in.

    Returns:
        The deliveries: rule, target, input and, for a state machine, the execution.
    """
    full: Json = {
        "version": "0",
        "id": world.new_id("", f"event {event.get('detail-type')}", 32),
        "account": world.account,
        "time": format_time(world.clock.now()),
        "region": world.region,
        "resources": [],
        **event,
    }
    world.events.append(full)
    deliveries: list[Json] = []
    if any(matches(pattern, full) for pattern in world.lost_events):
        return deliveries
    for rule in world.of_type(Type.EVENTS_RULE):
        pattern = rule.properties.get("EventPattern")
        if not _listens(rule) or not pattern:
            continue
        try:
            wanted = matches(pattern, full)
        except ValueError as error:
            world.deliveries.append({"rule": rule.physical_id, "error": str(error)})
            continue
        if wanted:
            world.triggered.append((world.clock.now(), rule.physical_id))
            deliveries += deliver(world, rule, full)
    return deliveries


def fire_schedule(world: World, rule: Resource) -> list[Json]:
    """Deliver the event of a scheduled rule."""
    event: Json = {
        "version": "0",
        "id": world.new_id("", f"schedule {rule.physical_id}", 32),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": world.account,
        "time": format_time(world.clock.now()),
        "region": world.region,
        "resources": [rule.attributes.get("Arn", rule.physical_id)],
        "detail": {},
    }
    world.events.append(event)
    return deliver(world, rule, event) if _listens(rule) else []


def _listens(rule: Resource) -> bool:
    return bool(rule.properties.get("State", "ENABLED") != "DISABLED")


def deliver(world: World, rule: Resource, event: Json) -> list[Json]:
    """Hand an event to every target of a rule."""
    deliveries = []
    for target in rule.properties.get("Targets", []):
        delivery: Json = {"rule": rule.physical_id, "target": target["Arn"]}
        machine = _state_machine(world, target["Arn"])
        try:
            delivery["input"] = target_input(target, event)
            if machine is not None:
                _may_start(world, target, machine)
                delivery["execution"] = start_execution(world, machine, delivery["input"])
        except (ApiError, KeyError, ValueError) as error:  # EventBridge drops what it cannot deliver; here it is kept
            delivery["error"] = f"{type(error).__name__}: {error}"
            delivery |= _dead_letter(world, rule, target)
        world.deliveries.append(delivery)
        deliveries.append(delivery)
    return deliveries


def _may_start(world: World, target: Json, machine: Resource) -> None:
    """EventBridge starts an execution with the target's role, which must trust it; ApiError if it may not.

    Source: EventBridge user guide, "Using identity-based policies": Step Functions targets need a role.
    """
    name = role_name(target.get("RoleArn", ""))
    role = world.find("AWS::IAM::Role", name)
    if world.decide is not None and (
        role is None
        or not lets_service(
            role.properties["AssumeRolePolicyDocument"],
            "events.amazonaws.com",
            "sts:AssumeRole",
            {"aws:SourceAccount": world.account},
        )
    ):
        raise ApiError("AccessDenied", f"events.amazonaws.com may not assume the role {name!r}")
    require(world, Caller(role=name, session="events"), "states:StartExecution", machine.physical_id)


def _dead_letter(world: World, rule: Resource, target: Json) -> Json:
    """Where EventBridge puts an event that it cannot deliver: the target's queue, if the queue's policy lets it.

    Source: EventBridge user guide, "Using dead-letter queues to process undelivered events": the queue's policy allows
    sqs:SendMessage to events.amazonaws.com, for the ARN of the rule.
    """
    arn = target.get("DeadLetterConfig", {}).get("Arn", "")
    queue = next((one for one in world.of_type("AWS::SQS::Queue") if one.attributes.get("Arn") == arn), None)
    if queue is None:
        return {}
    source = str(rule.attributes.get("Arn"))
    for policy in world.of_type("AWS::SQS::QueuePolicy"):
        if queue.physical_id in policy.properties["Queues"] and lets_service(
            policy.properties["PolicyDocument"], "events.amazonaws.com", "sqs:SendMessage", {"aws:SourceArn": source}
        ):
            return {"dead_letter": arn}
    return {"dead_letter_error": f"{arn} does not let EventBridge send messages"}


def _state_machine(world: World, arn: str) -> Resource | None:
    return next((found for found in world.of_type(Type.STATE_MACHINE) if found.physical_id == arn), None)


def start_execution(world: World, machine: Resource, sent: Any) -> Json:
    """Run a state machine to its end and record the execution."""
    given = machine.properties
    definition = given.get("Definition") or json.loads(given["DefinitionString"])
    text = json.dumps(definition)
    for name, value in given.get("DefinitionSubstitutions", {}).items():
        text = text.replace("${" + name + "}", json.dumps(str(value))[1:-1])
    execution: Execution = run(json.loads(text), sent, world, role=role_name(given["RoleArn"]))
    document = {
        "state_machine": machine.physical_id,
        "logical_id": machine.logical_id,
        **execution.document(),
    }
    world.executions.append(document)
    return document


def target_input(target: Json, event: Json) -> Any:
    """What a target is sent: the event, a part of it, a constant, or a transformed text."""
    if "Input" in target:
        return json.loads(target["Input"])
    if "InputPath" in target:
        return lookup(target["InputPath"], event)
    transformer = target.get("InputTransformer")
    if transformer is None:
        return event
    values = {name: lookup(path, event) for name, path in transformer.get("InputPathsMap", {}).items()}
    return json.loads(_transformed(transformer["InputTemplate"], values))


def _transformed(template: str, values: Json) -> str:
    """Fill a template: inside a JSON string a value is written as its text, elsewhere as JSON.

    Source: EventBridge user guide, "Amazon EventBridge input transformation", read 2026-11-21.
    """
    parts, quoted, position = [], False, 0
    for found in re.finditer(r'\\.|"|<([\w.-]+)>', template):
        parts.append(template[position : found.start()])
        position = found.end()
        name = found[1]
        if name is None or name not in values:
            quoted ^= found[0] == '"'
            parts.append(found[0])
        elif quoted:
            value = values[name]
            parts.append(json.dumps(value if isinstance(value, str) else json.dumps(value))[1:-1])
        else:
            parts.append(json.dumps(values[name]))
    return "".join(parts) + template[position:]


# EventBridge event patterns. Source: EventBridge user guide, "Comparison operators for use in event patterns"
# (exact, prefix, suffix, anything-but, exists, equals-ignore-case, numeric, wildcard), read 2026-11-21.

_NUMERIC = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def matches(pattern: Mapping[str, Any], event: Any) -> bool:
    """Whether an event matches every field of a pattern, any entry of a list; ValueError if not emulated."""
    if "$or" in pattern:
        rest = {key: value for key, value in pattern.items() if key != "$or"}
        return any(matches({**rest, **branch}, event) for branch in pattern["$or"])
    for key, wanted in pattern.items():
        present = isinstance(event, Mapping) and key in event
        value = event[key] if present else None
        if isinstance(wanted, Mapping):
            if not matches(wanted, value if present else {}):
                return False
        elif not any(_entry_matches(entry, value, present) for entry in wanted):
            return False
    return True


def _entry_matches(entry: Any, value: Any, present: bool) -> bool:
    if isinstance(entry, Mapping) and "exists" in entry:
        return bool(entry["exists"]) == present
    if not present:
        return False
    values = value if isinstance(value, list) else [value]
    return any(_value_matches(entry, one) for one in values)


def _value_matches(entry: Any, value: Any) -> bool:
    if not isinstance(entry, Mapping):
        return type(entry) is type(value) and bool(entry == value)
    ((name, operand),) = entry.items()
    if name == "numeric":
        pairs = zip(operand[::2], operand[1::2], strict=True)
        return isinstance(value, int | float) and all(_NUMERIC[sign](value, bound) for sign, bound in pairs)
    if name == "anything-but":
        barred = operand if isinstance(operand, list) else [operand]
        return not any(_value_matches(one, value) for one in barred)
    if not isinstance(value, str):
        return False
    if name == "prefix":
        return value.startswith(operand)
    if name == "suffix":
        return value.endswith(operand)
    if name == "equals-ignore-case":
        return value.lower() == str(operand).lower()
    if name == "wildcard":
        return re.fullmatch(".*".join(map(re.escape, str(operand).split("*"))), value) is not None
    raise ValueError(f"the event pattern operator {name!r} is not emulated")
