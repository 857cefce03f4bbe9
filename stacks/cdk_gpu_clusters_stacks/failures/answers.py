"""Messages of failures in answers of AWS: live ones, those that the AWS CLI printed, records of nodes, and plain text.

An answer may lack any member, or have another in its place: what is not there is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .table import Place, meanings_of


class NothingKnown(Exception):
    """A document is none that messages could be read from: one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A failure as AWS or a node words it.

    Attributes:
        text: The message, in full.
        place: Where it was read.
        subject: What it is about, such as a logical id or a node.
        when: Its time; None for a state that still holds.
        fix: What the node itself proposes; empty for all others.
    """

    text: str
    place: Place
    subject: str = ""
    when: datetime | None = None
    fix: str = ""


def messages_of(answer: object) -> list[Message]:
    """The failures in an answer of AWS: a parsed response, or several in a list. What is unknown has none.

    Example:
        >>> messages_of({"Activities": [{"StatusCode": "Failed", "StatusMessage": "no"}]})[0].text
        'no'
    """
    return [message for part, key in _known_parts(answer) for message in _READERS[key](part)]


def require_known(answer: object) -> None:
    """Make sure that failures could be read from an answer.

    Raises:
        NothingKnown: If no part of it is known.
    """
    if not any(_known_parts(answer)):
        raise NothingKnown(f"it has none of {', '.join(_READERS)}")


def _known_parts(answer: object) -> Iterator[tuple[Mapping[str, Any], str]]:
    for part in answer if isinstance(answer, list) else [answer]:
        if isinstance(part, Mapping):
            yield from ((part, key) for key in _READERS if key in part)


def messages_of_text(text: str) -> list[Message]:
    """The failures in a text: lines that are known, otherwise all of it as one message.

    Lines of JSON are read as records of nodes.
    """
    found: list[Message] = []
    for line in text.splitlines():
        records = list(_record(line, when=None, subject=""))
        if records:
            found += records
        elif meanings_of(line):
            found.append(Message(text=line.strip(), place=Place.TEXT))
    if meanings_of(text) and not found:
        return [Message(text=text.strip(), place=Place.TEXT)]
    return found or ([Message(text=text.strip(), place=Place.TEXT)] if text.strip() else [])


# Members of answers, if they are there.


def _rows(answer: object, key: str) -> list[Mapping[str, Any]]:
    rows = answer.get(key) if isinstance(answer, Mapping) else None
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _part(answer: object, key: str) -> Mapping[str, Any]:
    part = answer.get(key) if isinstance(answer, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _text(answer: object, key: str) -> str:
    value = answer.get(key) if isinstance(answer, Mapping) else None
    return value.strip() if isinstance(value, str) else ""


def time_of(value: object) -> datetime | None:
    """A time as boto3, the AWS CLI or CloudWatch Logs (milliseconds) gives it; None for anything else."""
    with suppress(ArithmeticError, OSError, ValueError):
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value > _LAST_SECOND else value, UTC)
    return None


# Greater numbers are milliseconds: as seconds they would lie beyond the year 5000.
_LAST_SECOND = 100_000_000_000


# One reader for each kind of answer.


def _stack_events(answer: Mapping[str, Any]) -> Iterator[Message]:
    for event in _rows(answer, "StackEvents"):
        status, reason = _text(event, "ResourceStatus"), _text(event, "ResourceStatusReason")
        begins_rollback = status.endswith("ROLLBACK_IN_PROGRESS") and reason
        if status.endswith("_FAILED") or begins_rollback:
            subject = " ".join(filter(None, (_text(event, "ResourceType"), _text(event, "LogicalResourceId"))))
            yield Message(
                text=reason or f"{status}, and CloudFormation gives no reason",
                place=Place.STACK,
                subject=subject,
                when=time_of(event.get("Timestamp")),
            )


def _activities(answer: Mapping[str, Any]) -> Iterator[Message]:
    for activity in _rows(answer, "Activities"):
        when = time_of(activity.get("StartTime"))
        message, cause = _text(activity, "StatusMessage"), _text(activity, "Cause")
        subject = _text(activity, "AutoScalingGroupName")
        if _text(activity, "StatusCode") in ("Failed", "Cancelled"):
            text = message or _text(activity, "Description") or "the activity failed, and no reason is given"
            yield Message(text=text, place=Place.ACTIVITY, subject=subject, when=when)
        elif "health" in cause and "out of service" in cause:
            yield Message(text=cause, place=Place.ACTIVITY, subject=subject, when=when)


def _groups(answer: Mapping[str, Any]) -> Iterator[Message]:
    for group in _rows(answer, "AutoScalingGroups"):
        for process in _rows(group, "SuspendedProcesses"):
            if _text(process, "ProcessName") == "Launch":
                text = ": ".join(filter(None, ("Launch is suspended", _text(process, "SuspensionReason"))))
                yield Message(text=text, place=Place.GROUP, subject=_text(group, "AutoScalingGroupName"))


def _fleet_history(answer: Mapping[str, Any]) -> Iterator[Message]:
    for record in _rows(answer, "HistoryRecords"):
        if _text(record, "EventType") in ("service-error", "error"):
            event = _part(record, "EventInformation")
            text = ": ".join(filter(None, (_text(event, "EventSubType"), _text(event, "EventDescription"))))
            subject, when = _text(answer, "FleetId"), time_of(record.get("Timestamp"))
            yield Message(text=text or "an error without a reason", place=Place.FLEET, subject=subject, when=when)


def _fleet_errors(fleet: Mapping[str, Any]) -> Iterator[Message]:
    """Of `create-fleet`, or of one fleet in `describe-fleets`."""
    for error in _rows(fleet, "Errors"):
        text = _coded(_text(error, "ErrorCode"), _text(error, "ErrorMessage"))
        yield Message(text=text, place=Place.FLEET, subject=_text(fleet, "FleetId"))


def _fleets(answer: Mapping[str, Any]) -> Iterator[Message]:
    for fleet in _rows(answer, "Fleets"):
        yield from _fleet_errors(fleet)


def _coded(code: str, message: str) -> str:
    return ": ".join(filter(None, (code, message))) or "an error without code and message"


def _trail(answer: Mapping[str, Any]) -> Iterator[Message]:
    for event in _rows(answer, "Events"):
        inner = parsed(_text(event, "CloudTrailEvent"))
        subject = f"{_text(event, 'EventName')} by {_text(event, 'Username') or 'unknown'}"
        for code, message in dict.fromkeys(_errors_within(inner)):
            text, when = _coded(code, message), time_of(event.get("EventTime"))
            yield Message(text=text, place=Place.TRAIL, subject=subject, when=when)


def parsed(text: str) -> Any:
    """A text of JSON, parsed; None if it is none."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return None


def _errors_within(event: object) -> Iterator[tuple[str, str]]:
    """Code and message of an event, and of each error that an instant fleet answered with.

    CloudTrail writes an `errorSet` as `{"item": ...}`, with one error or with several. Who tries
    a launch with DryRun leaves the error `DryRunOperation`: it would have succeeded (EC2 API reference, error codes).
    """
    if isinstance(event, Mapping):
        code = _text(event, "errorCode")
        if code and not code.endswith("DryRunOperation"):
            yield code, _text(event, "errorMessage")
        for key in ("responseElements", "CreateFleetResponse", "errorSet", "item", "errors"):
            yield from _errors_within(event.get(key))
    elif isinstance(event, list):
        for one in event:
            yield from _errors_within(one)


def _node_group(answer: Mapping[str, Any]) -> Iterator[Message]:
    yield from _issues(_part(answer, "nodegroup"), "nodegroupName")


def _cluster(answer: Mapping[str, Any]) -> Iterator[Message]:
    """A cluster of EKS or of AWS PCS."""
    yield from _issues(_part(answer, "cluster"), "name")
    yield from _pcs_errors(_part(answer, "cluster"))


def _issues(resource: Mapping[str, Any], name: str) -> Iterator[Message]:
    for issue in _rows(_part(resource, "health"), "issues"):
        text = _coded(_text(issue, "code"), _text(issue, "message"))
        yield Message(text=text, place=Place.NODE_GROUP, subject=_text(resource, name))


def _compute_node_group(answer: Mapping[str, Any]) -> Iterator[Message]:
    yield from _pcs_errors(_part(answer, "computeNodeGroup"))


def _pcs_errors(resource: Mapping[str, Any]) -> Iterator[Message]:
    for error in _rows(resource, "errorInfo"):
        text = _coded(_text(error, "code"), _text(error, "message"))
        yield Message(text=text, place=Place.PCS, subject=_text(resource, "name"))


def _file_systems(answer: Mapping[str, Any]) -> Iterator[Message]:
    for system in _rows(answer, "FileSystems"):
        message = _text(_part(system, "FailureDetails"), "Message")
        if message:
            yield Message(text=message, place=Place.FILE_SYSTEM, subject=_text(system, "FileSystemId"))


def _log_events(answer: Mapping[str, Any]) -> Iterator[Message]:
    for event in _rows(answer, "events"):
        line, when = _text(event, "message"), time_of(event.get("timestamp"))
        stream = _text(event, "logStreamName")
        records = list(_record(line, when=when, subject=stream))
        yield from records
        if not records and not line.startswith("{") and meanings_of(line, Place.PCS_BOOT):
            yield Message(text=line, place=Place.PCS_BOOT, subject=stream, when=when)


def _record(line: str, *, when: datetime | None, subject: str) -> Iterator[Message]:
    """The failure of a boot in a record of `gpunode` (`gpunode.events`), or of `fetch-software`."""
    record = parsed(line) if line.lstrip().startswith("{") else None
    if isinstance(record, Mapping) and _text(record, "state") == "failed":
        stage, reason = _text(record, "stage"), _text(record, "reason")
        if stage == "software":
            reason = f"software: {reason}"
        if reason and stage in ("", "node", "software"):
            node = _text(record, "instance_id") or subject
            time = time_of(record.get("time")) or when
            yield Message(text=reason, place=Place.BOOT, subject=node, when=time, fix=_text(record, "fix"))


def _boot_file(answer: Mapping[str, Any]) -> Iterator[Message]:
    """The result of a boot, `/var/lib/gpu-cluster/boot.json`."""
    yield from _record(json.dumps(answer, default=str), when=None, subject="")


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Message]]] = {
    "StackEvents": _stack_events,
    "Activities": _activities,
    "AutoScalingGroups": _groups,
    "HistoryRecords": _fleet_history,
    "Errors": _fleet_errors,
    "Fleets": _fleets,
    "Events": _trail,
    "nodegroup": _node_group,
    "cluster": _cluster,
    "computeNodeGroup": _compute_node_group,
    "FileSystems": _file_systems,
    "events": _log_events,
    "state": _boot_file,
}
