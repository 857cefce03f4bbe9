"""Read JSON templates: the standard reader for the values, and a second look for the places of findings alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

from cdk_gpu_clusters.policy.document import Document, Path, Place, UnusableTemplate

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
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise UnusableTemplate(f"the key {twice!r} stands twice in one object")
    return made


def _refuse_constant(name: str) -> None:
    raise UnusableTemplate(f"this is not JSON: {name} is no value")


class _Places:
    """Where values stand: each object and list on the way is walked once, at the speed of the standard reader."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts: dict[int, dict[str | int, tuple[int, int]]] = {}

    def place(self, path: Path) -> Place:
        """The place of a path, or of its longest part that stands in the text."""
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
