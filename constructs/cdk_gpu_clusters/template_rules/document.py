"""A template's text as plain values, and the place of each value. JSON is read here; YAML in `yaml_text`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

#: Keys and list indexes from the root of a template.
Path = tuple[str | int, ...]

#: Nesting that no template needs; deeper values are refused before anything recurses into them.
MAX_DEPTH = 100
#: "Template body size in an Amazon S3 object" (CloudFormation user guide, quotas).
MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a text, counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


class UnusableTemplate(Exception):
    """The text is no usable template: one line with the reason, and the place."""

    def __init__(self, cause: str, place: Place | None = None, path: Path = ()) -> None:
        self.cause = cause
        self.place = place
        self.path = path
        super().__init__(cause)


@dataclass(frozen=True, slots=True)
class Document:
    """Values of a text.

    Attributes:
        data: The values, with short tags such as `!Ref` written out as `{"Ref": …}`.
        locate: Gives the place of a path, or of the longest part of it that the text has.
    """

    data: Any
    locate: Callable[[Path], Place]


def no_places(path: Path) -> Place:  # noqa: ARG001 - the signature of `Document.locate`
    """Place of every path of values that come from no text."""
    return Place(1, 1)


def path_text(path: Path) -> str:
    """A path as it is shown: `Resources/Nodes/Properties/ImageId`."""
    return "/".join(str(part) for part in path)


_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def read_json_text(text: str) -> Document:
    """Read JSON.

    Raises:
        UnusableTemplate: If it is not JSON, or names a key twice.
    """
    try:
        data = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as fault:
        raise UnusableTemplate(f"this is not JSON: {fault.msg}", Place(fault.lineno, fault.colno)) from None
    except RecursionError:
        raise UnusableTemplate("values are nested too deeply") from None
    except ValueError as fault:  # such as a number of thousands of digits
        raise UnusableTemplate(f"this is not JSON: {fault}") from None
    return Document(data, _Places(text).place)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UnusableTemplate(f"the key {twice!r} is used twice in one object")
    return made


def _refuse_constant(name: str) -> None:
    raise UnusableTemplate(f"this is not JSON: {name} is no value")


class _Places:
    """The places of values: each object and list on the way is walked once, at the speed of the standard reader."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts: dict[int, dict[str | int, tuple[int, int]]] = {}

    def place(self, path: Path) -> Place:
        """The place of a path, or of the longest part of it that the text has."""
        position = found = self._skip_space(0)
        for part in path:
            step = self._parts_at(position).get(part)
            if step is None:
                break
            found, position = step
        return Place(self._text.count("\n", 0, found) + 1, found - self._text.rfind("\n", 0, found))

    def _parts_at(self, position: int) -> dict[str | int, tuple[int, int]]:
        """Where each key of an object, or item of a list, and its value start."""
        if position not in self._parts:
            opening = self._text[position]
            found = self._members(position) if opening == "{" else self._items(position)
            self._parts[position] = dict(found) if opening in "{[" else {}
        return self._parts[position]

    def _members(self, position: int) -> Iterator[tuple[str | int, tuple[int, int]]]:
        position = self._skip_space(position + 1)
        while self._text[position] == '"':
            start = position
            key, position = _DECODER.raw_decode(self._text, position)
            position = self._skip_space(self._skip_space(position) + 1)
            yield key, (start, position)
            position = self._next(position)

    def _items(self, position: int) -> Iterator[tuple[str | int, tuple[int, int]]]:
        position = self._skip_space(position + 1)
        for index in count():
            if self._text[position] == "]":
                return
            yield index, (position, position)
            position = self._next(position)

    def _next(self, position: int) -> int:
        """Skip a value, and the comma after it."""
        position = self._skip_space(_DECODER.raw_decode(self._text, position)[1])
        return self._skip_space(position + 1) if self._text[position] == "," else position

    def _skip_space(self, position: int) -> int:
        found = _SPACE.match(self._text, position)
        return found.end() if found else position
