"""Failures, repeated ones once, the newest first, and as lines for a person."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cdk_gpu_clusters_stacks.preflight.unread import format_unread

from .answers import Message
from .reading import ENCODED, Reading
from .table import Meaning, meanings_of

_UNKNOWN = "unknown: the table of messages has none like it"
# What differs between two times of the same failure: ids of AWS, UUIDs, times, encoded denials.
_VARYING = re.compile(
    r"\b(?:i|eni|vol|lt|r)-[0-9a-f]{8,17}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?|(?<=failure message: )[\w-]+"
)
#: A state that still holds is newer than any time.
_NOW = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failure, however often it came.

    Attributes:
        about: Key of the cluster file, or the stack; empty if that is unknown.
        message: Its newest message.
        first: Time of its first one; None if it has none.
        count: How often it came.
        meanings: What it means; none if it is unknown.
        decoded: What an encoded denial means, in a sentence; empty if there is none, or it could not be read.
    """

    about: str
    message: Message
    first: datetime | None
    count: int
    meanings: tuple[Meaning, ...]
    decoded: str = ""


def failures_of(reading: Reading) -> list[Failure]:
    """The failures of what was read, the newest first.

    Failures that only follow from another one of the same subject are left out, if the other one is there.
    """
    groups: dict[tuple[str, str, str], list[Message]] = {}
    for about, message in reading.messages():
        key = (about, message.place.value, _VARYING.sub("", message.text))
        groups.setdefault(key, []).append(message)
    found = [_failure(key[0], messages, reading) for key, messages in groups.items()]
    causes = {one.about for one in found if not _follows(one)}
    kept = [one for one in found if not (_follows(one) and one.about in causes)]
    return sorted(kept, key=lambda one: one.message.when or _NOW, reverse=True)


def _failure(about: str, messages: list[Message], reading: Reading) -> Failure:
    newest = max(messages, key=lambda one: one.when or _NOW)
    times = [one.when for one in messages if one.when is not None]
    code = ENCODED.search(newest.text)
    return Failure(
        about=about,
        message=newest,
        first=min(times, default=None),
        count=len(messages),
        meanings=meanings_of(newest.text, newest.place),
        decoded=_sentence(reading.decoded.get(code["code"])) if code else "",
    )


def _follows(failure: Failure) -> bool:
    return any(one.known.kind == "consequence" for one in failure.meanings)


def _sentence(decoded: object) -> str:
    """A decoded denial (STS API reference, DecodeAuthorizationMessage) in a sentence."""
    if not isinstance(decoded, dict):
        return ""
    context = decoded["context"] if isinstance(decoded.get("context"), dict) else {}
    principal = context["principal"] if isinstance(context.get("principal"), dict) else {}
    why = "a statement denies" if decoded.get("explicitDeny") else "no statement allows"
    who, action, resource = principal.get("arn"), context.get("action"), context.get("resource")
    return f"{why} {action or 'the action'} on {resource or 'the resource'} to {who or 'the caller'}"


# For a person, and as plain values.


def cause_of(failure: Failure) -> str:
    """Why, as far as it is known."""
    causes = "; or ".join(dict.fromkeys(one.cause for one in failure.meanings)) or _UNKNOWN
    return f"{causes}; {failure.decoded}" if failure.decoded else causes


def fix_of(failure: Failure) -> str:
    """What to do: what the node proposes, otherwise what the table has; empty if it is unknown."""
    if failure.message.fix:
        return failure.message.fix
    return "; or ".join(dict.fromkeys(one.fix for one in failure.meanings))


def rules_of(failure: Failure) -> list[str]:
    """Ids of the rules that find the cause before a deployment."""
    return list(dict.fromkeys(one.known.rule for one in failure.meanings if one.known.rule))


def format_failures(reading: Reading, failures: Iterable[Failure], *, rule_titles: dict[str, str]) -> Iterator[str]:
    """Write the failures of each subject, the newest first, and what could not be read.

    Args:
        reading: What was read.
        failures: Its failures.
        rule_titles: Title of each rule.
    """
    by_subject: dict[str, list[Failure]] = {}
    for one in failures:
        by_subject.setdefault(one.about, []).append(one)
    yield _heading(reading, sum(map(len, by_subject.values())))
    for about, some in by_subject.items():
        yield ""
        yield about or "the account" if reading.cluster else about or "in the file"
        for failure in some:
            yield from _lines(failure, rule_titles)
    yield from _nodes(reading)
    yield from format_unread(reading.unread, reading.absent)


def _heading(reading: Reading, number: int) -> str:
    counted = "1 failure" if number == 1 else f"{number or 'no'} failures"
    if not reading.cluster:
        return counted
    account = f"account {reading.account}" if reading.account else "an unknown account"
    since = f" since {_utc(reading.since)}" if reading.since else ""
    return f"{reading.cluster} in {reading.region}, {account}: {counted}{since}"


def _lines(failure: Failure, rule_titles: dict[str, str]) -> Iterator[str]:
    message = failure.message
    when = _utc(message.when) if message.when else "now"
    if message.when is None and not message.subject and message.place.value == "text":
        when = ""
    place = " ".join(filter(None, (message.place.value, message.subject)))
    often = f", {failure.count} times" if failure.count > 1 else ""
    often += f" since {_utc(failure.first)}" if failure.count > 1 and failure.first else ""
    yield f"  {'  '.join(filter(None, (when, place)))}{often}"
    yield from (f"    {line}" for line in message.text.splitlines())
    yield f"    cause: {cause_of(failure)}"
    if fix := fix_of(failure):
        yield f"    fix: {fix}"
    for rule in rules_of(failure):
        yield f"    rule: {rule} {rule_titles.get(rule, '')}".rstrip()


def _nodes(reading: Reading) -> Iterator[str]:
    """How many nodes each Auto Scaling group has, and should have."""
    rows = list(_counts(reading))
    if rows:
        yield ""
        yield "nodes"
        yield from rows


def _counts(reading: Reading) -> Iterator[str]:
    for one in reading.answers:
        answer = one.get("answer")
        groups = answer.get("AutoScalingGroups") if isinstance(answer, dict) else None
        for group in groups if isinstance(groups, list) else ():
            if isinstance(group, dict):
                name = one.get("about") or group.get("AutoScalingGroupName", "")
                instances = group["Instances"] if isinstance(group.get("Instances"), list) else []
                states = [row.get("LifecycleState") for row in instances if isinstance(row, dict)]
                ready = states.count("InService")
                yield f"  {name}: {ready} in service, {group.get('DesiredCapacity', 'unknown')} desired"


def as_json(reading: Reading, failures: Iterable[Failure]) -> dict[str, Any]:
    """The same as plain values."""
    saved = reading.as_json()
    return {
        **{name: saved[name] for name in ("cluster", "region", "account", "since")},
        "failures": [
            {
                "about": one.about,
                "place": one.message.place.value,
                "subject": one.message.subject,
                "message": one.message.text,
                "first": one.first and one.first.isoformat(),
                "last": one.message.when and one.message.when.isoformat(),
                "count": one.count,
                "known": [meaning.known.id for meaning in one.meanings],
                "cause": cause_of(one),
                "fix": fix_of(one),
                "rules": rules_of(one),
                "sources": [source for meaning in one.meanings for source in meaning.known.source],
            }
            for one in failures
        ],
        "unread": saved["unread"],
        "absent": saved["absent"],
    }


def saved_text(reading: Reading) -> str:
    """The text of the file that `--save` writes."""
    return json.dumps(reading.as_json(), indent=1) + "\n"


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%MZ}"
