"""The table of failure messages: what each means, what to do, and who wrote it down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Literal

_FILE = Path(__file__).with_name("messages.json")


class Place(StrEnum):
    """Where a message is read."""

    STACK = "CloudFormation event"
    ACTIVITY = "Auto Scaling activity"
    GROUP = "Auto Scaling group"
    FLEET = "EC2 Fleet error"
    TRAIL = "CloudTrail error"
    CALL = "EC2 error"
    NODE_GROUP = "EKS node group issue"
    PCS = "PCS error"
    PCS_BOOT = "PCS boot log"
    FILE_SYSTEM = "FSx file system"
    BOOT = "boot record"
    TEXT = "text"


#: Places that repeat what EC2 answers to a launch, under this name in the table.
_LAUNCH = (Place.STACK, Place.ACTIVITY, Place.FLEET, Place.TRAIL, Place.CALL, Place.NODE_GROUP, Place.PCS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A message that is known.

    Attributes:
        id: Its name in the table.
        kind: `specific` for one cause. `general` for a code or a stage that others explain better: it counts only if
            no specific row has the message. `consequence` if another failure came first.
        pattern: Its stable words; what varies is in named groups.
        places: Where it appears.
        cause: Why, with the named groups in braces.
        fix: What to do, likewise.
        rule: Id of the rule that finds the cause before a deployment; empty if none does.
        source: Who wrote it down: an issue or a pull request as `owner/repository#number`, a page of a guide, or a
            shape of botocore's service models.
    """

    id: str
    kind: Literal["specific", "general", "consequence"]
    pattern: re.Pattern[str]
    places: frozenset[Place]
    cause: str
    fix: str
    rule: str
    source: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a message means.

    Attributes:
        known: Its row.
        cause: Why, about this message.
        fix: What to do about it.
    """

    known: Known
    cause: str
    fix: str


@cache
def known_messages() -> tuple[Known, ...]:
    """All rows of the table."""
    return tuple(
        Known(
            id=row["id"],
            kind=row["kind"],
            pattern=re.compile(row["pattern"]),
            places=frozenset(_places(row["where"])),
            cause=row["cause"],
            fix=row["fix"],
            rule=row["rule"],
            source=tuple(row["source"]),
        )
        for row in json.loads(_FILE.read_text("utf-8"))
    )


def _places(names: list[str]) -> Iterator[Place]:
    for name in names:
        yield from _LAUNCH if name == "launch" else (Place(name),)


def meanings_of(text: str, place: Place = Place.TEXT) -> tuple[Meaning, ...]:
    """What a message means: usually one row; none if it is unknown, which is never guessed.

    Args:
        text: The message.
        place: Where it was read. A general row counts only in its own places, and in text of unknown origin.

    Example:
        >>> [one.known.id for one in meanings_of("Max spot instance count exceeded")]
        ['quota-spot']
        >>> meanings_of("something else")
        ()
    """
    found = [(row, match) for row in known_messages() if (match := row.pattern.search(text))]
    specific = [(row, match) for row, match in found if row.kind != "general"]
    general = [(row, match) for row, match in found if place is Place.TEXT or place in row.places]
    return tuple(
        Meaning(known=row, cause=row.cause.format_map(match.groupdict()), fix=row.fix.format_map(match.groupdict()))
        for row, match in specific or general
    )
