"""What EventBridge refuses in rules, and Step Functions in state machines.

Sources: EventBridge user guide, "Creating an Amazon EventBridge rule that runs on a schedule" (rate and cron
expressions), "Creating Amazon EventBridge event patterns" (values are lists) and "Quotas" (2,048 characters of a
pattern); EventBridge API, PutTargets. Amazon States Language, "Transitions"; Step Functions developer guide, "Logging
using CloudWatch Logs" (permissions of the role) and "Transforming data with JSONata". Words of the services:
aws/aws-cdk issues 26432 and 33332 (log destination), awsdocs/aws-step-functions-developer-guide issue 23 (trust).
Stored copies of 2026.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ..faults import Fault
from ..permissions import allows, lets_service, role_name
from ..world import Json, World

_RATE = re.compile(r"rate\((?:1 (?:minute|hour|day)|(?:[2-9]|[1-9]\d+) (?:minutes|hours|days))\)")
_CRON_FIELDS, _DAY_OF_MONTH, _DAY_OF_WEEK = 6, 2, 4
_LONGEST_PATTERN = 2_048
_MACHINE = ":states:"
_LOG_DELIVERY = (
    "logs:CreateLogDelivery",
    "logs:GetLogDelivery",
    "logs:UpdateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:DescribeResourcePolicies",
    "logs:DescribeLogGroups",
)
#: Fields that a state in JSONata does not have.
_JSON_PATH_FIELDS = ("InputPath", "OutputPath", "Parameters", "ResultPath", "ResultSelector")


def rule_faults(properties: Json, _world: World) -> Iterator[Fault]:
    """Faults of an `AWS::Events::Rule`."""
    schedule = properties.get("ScheduleExpression")
    if schedule is not None and not _is_schedule(schedule):
        yield Fault("rule-schedule", f"Parameter ScheduleExpression is not valid. Got {schedule}", "ScheduleExpression")
    pattern = properties.get("EventPattern")
    if pattern is not None:
        yield from _pattern_faults(json.loads(pattern) if isinstance(pattern, str) else pattern)
    for place, target in enumerate(properties.get("Targets", [])):
        if _MACHINE in target["Arn"] and not target.get("RoleArn"):
            yield Fault("rule-role", f"RoleArn is required for target {target['Arn']}.", f"Targets/{place}/RoleArn")


def _is_schedule(text: str) -> bool:
    if text.startswith("rate("):
        return _RATE.fullmatch(text) is not None
    fields = text.removeprefix("cron(").removesuffix(")").split()
    if not text.startswith("cron(") or len(fields) != _CRON_FIELDS:
        return False
    return "?" in (fields[_DAY_OF_MONTH], fields[_DAY_OF_WEEK])


def _pattern_faults(pattern: Json) -> Iterator[Fault]:
    length = len(json.dumps(pattern, separators=(",", ":")))
    if length > _LONGEST_PATTERN:
        message = f"Event pattern has {length} characters, and at most {_LONGEST_PATTERN}"
        yield Fault("rule-pattern", message, "EventPattern")
    for path, value in _leaves(pattern, ""):
        if not isinstance(value, list) or not value:
            message = f'Event pattern is not valid. Reason: "{path}" must be an object or an array with a value'
            yield Fault("rule-pattern", message, f"EventPattern/{path}")


def _leaves(pattern: Json, path: str) -> Iterator[tuple[str, Any]]:
    for name, value in pattern.items():
        at = f"{path}/{name}".lstrip("/")
        if isinstance(value, dict):
            yield from _leaves(value, at)
        elif name != "$or":
            yield at, value


def state_machine_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::StepFunctions::StateMachine`."""
    name = role_name(properties["RoleArn"])
    role = world.find("AWS::IAM::Role", name)
    if role is not None and world.decide is not None:
        context = {"aws:SourceAccount": world.account}
        trust = role.properties["AssumeRolePolicyDocument"]
        if not lets_service(trust, "states.amazonaws.com", "sts:AssumeRole", context):
            message = (
                "Neither the global service principal states.amazonaws.com, nor the regional one is authorized to "
                "assume the provided role."
            )
            yield Fault("machine-role", message, "RoleArn")
        missing = [action for action in _LOG_DELIVERY if not allows(world, name, action, "*")]
        if properties.get("LoggingConfiguration", {}).get("Level", "OFF") != "OFF" and missing:
            message = "The state machine IAM Role is not authorized to access the Log Destination"
            yield Fault("machine-logs", f"{message}: {', '.join(missing)}", "LoggingConfiguration")
    definition = properties.get("Definition") or json.loads(properties.get("DefinitionString", "{}"))
    if definition:
        yield from _definition_faults(definition, definition.get("QueryLanguage", "JSONPath"), "")


def _definition_faults(definition: Json, language: str, path: str) -> Iterator[Fault]:
    states = definition["States"]
    for place, target in _transitions(definition, path):
        if target not in states:
            message = f"Invalid State Machine Definition: MISSING_TRANSITION_TARGET: Missing 'Next' target: {target}"
            yield Fault("machine-definition", f"{message} at {place}", "DefinitionString")
    for name, state in states.items():
        its = state.get("QueryLanguage", language)
        wrong = [field for field in _JSON_PATH_FIELDS if field in state] if its == "JSONata" else []
        if wrong:
            message = f"Invalid State Machine Definition: SCHEMA_VALIDATION_FAILED: {', '.join(wrong)} in JSONata"
            yield Fault("machine-definition", f"{message} at {path}/States/{name}", "DefinitionString")
        for inner in [*state.get("Branches", []), *([state["ItemProcessor"]] if "ItemProcessor" in state else [])]:
            yield from _definition_faults(inner, its, f"{path}/States/{name}")


def _transitions(definition: Json, path: str) -> Iterator[tuple[str, str]]:
    """Where a definition names a state, and which."""
    yield f"{path}/StartAt", definition["StartAt"]
    for name, state in definition["States"].items():
        for holder in (state, *state.get("Choices", []), *state.get("Catch", [])):
            for field in ("Next", "Default"):
                if field in holder:
                    yield f"{path}/States/{name}/{field}", holder[field]
