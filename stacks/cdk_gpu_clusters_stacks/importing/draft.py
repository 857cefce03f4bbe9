"""The cluster file that an import makes: values, where each comes from, and what a person must fill in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters_stacks.spec._document import Key

from .foreign import Part

_SCHEMA = "# Editors: gpu-clusters schema > cluster.schema.json\n# yaml-language-server: $schema=cluster.schema.json"
#: Texts that YAML 1.1 and 1.2 read as nothing but text.
_PLAIN = re.compile(
    r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[a-z/][\w./+-]*(?::[\w./+-]+)*", re.ASCII | re.IGNORECASE
)
#: Times, which the cluster file has without quotes.
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}Z")


class Change(StrEnum):
    """What an import does to a value of the file."""

    BETTER = "better"
    REPLACED = "replaced"
    LOST = "lost"
    FILLED = "to fill in"


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the report.

    Attributes:
        change: What happens.
        what: What it happens to, such as `HeadNode.InstanceType`; empty for all of the file.
        text: What takes its place, or why nothing does.
        place: File, line and column in the file that is imported; empty for all of the file.
    """

    change: Change
    what: str
    text: str
    place: str = ""


@dataclass(slots=True)
class Draft:
    """A cluster file in the making.

    Attributes:
        data: Its values.
        origins: Where values come from, by their path in the cluster file.
        marks: Values that a person must change, by their path, with what was there.
        notes: The report.
        findings: Warnings about values of the file that are left out.
    """

    data: dict[str, object] = field(default_factory=dict)
    origins: dict[Key, Part] = field(default_factory=dict)
    marks: dict[Key, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def put(self, *path: str, value: object, of: Part | None = None) -> None:
        """Set a value.

        Args:
            path: Its path in the cluster file.
            value: The value.
            of: The value of the file that it comes from.
        """
        *above, last = path
        place = self.data
        for name in above:
            inside = place.setdefault(name, {})
            if not isinstance(inside, dict):
                raise TypeError(f"{'.'.join(path)}: {name} holds a value")
            place = inside
        place[last] = value
        if of is not None:
            self.origins[path] = of

    def fill(self, *path: str, value: object, why: str, of: Part | None = None) -> None:
        """Set an invented value that a person must change."""
        self.put(*path, value=value, of=of)
        self.marks[path] = why
        place = of.place if of is not None and of.exists else ""
        self.notes.append(Note(Change.FILLED, ".".join(path), why, place))

    def note(self, change: Change, text: str, of: Part | None = None) -> None:
        """Add a line to the report, and take what it is about as read."""
        if of is not None:
            of.skip()
        self.notes.append(Note(change, of.name if of else "", text, of.place if of else ""))

    def origin_of(self, key: Key) -> Part | None:
        """Where the value at a path, or the nearest one around it, comes from."""
        while key:
            if key in self.origins:
                return self.origins[key]
            key = key[:-1]
        return None

    def lines(self) -> list[tuple[str, Key]]:
        """The text of the cluster file by lines, each with the path of its value."""
        head = [(line, ()) for line in _SCHEMA.splitlines()]
        return [*head, *self._mapping(self.data, ())]

    def text(self) -> str:
        """The text of the cluster file."""
        return "".join(f"{line}\n" for line, _ in self.lines())

    def _mapping(self, values: Mapping[str, object], above: Key) -> Iterator[tuple[str, Key]]:
        for name, value in values.items():
            key = (*above, name)
            start = f"{'  ' * len(above)}{_scalar(name)}:"
            if isinstance(value, Mapping) and value:
                yield f"{start}{self._mark(key)}", key
                yield from self._mapping(value, key)
            else:
                yield f"{start} {_flow(value)}{self._mark(key)}", key

    def _mark(self, key: Key) -> str:
        return f" # CHANGE: {_comment(self.marks[key])}" if key in self.marks else ""


def _comment(text: str) -> str:
    """A text as the rest of a comment: YAML ends one at the end of the line, and has no control characters."""
    return "".join(char if char.isprintable() else " " for char in text)


def _flow(value: object) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_scalar(name)}: {_flow(one)}" for name, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, value))}]"
    return _scalar(value)


def _scalar(value: object) -> str:
    """A value as YAML: text plain where nothing in it has a meaning of its own, in quotes otherwise."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    text = str(value)
    return text if _PLAIN.fullmatch(text) or _TIME.fullmatch(text) else json.dumps(text)
