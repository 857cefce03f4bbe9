"""Read JSON templates: the standard reader for the values, and a second look for the places of findings alone."""

from __future__ import annotations

import json
from typing import Any

from cdk_gpu_clusters.policy.document import Document, Path, Place, UnusableTemplate

_SPACE = " \t\r\n"
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
    return Document(data, lambda path: _locate(text, path))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise UnusableTemplate(f"the key {twice!r} stands twice in one object")
    return made


def _refuse_constant(name: str) -> None:
    raise UnusableTemplate(f"this is not JSON: {name} is no value")


def _locate(text: str, path: Path) -> Place:
    """Walk to the path; what lies beside it is skipped at the speed of the standard reader."""
    position = found = _skip_space(text, 0)
    for part in path:
        step = _member(text, position, part) if isinstance(part, str) else _item(text, position, part)
        if step is None:
            break
        found, position = step
    return Place(text.count("\n", 0, found) + 1, found - text.rfind("\n", 0, found))


def _member(text: str, position: int, wanted: str) -> tuple[int, int] | None:
    """Where a key of an object and its value start."""
    if text[position] != "{":
        return None
    position = _skip_space(text, position + 1)
    while text[position] == '"':
        start = position
        key, position = _DECODER.raw_decode(text, position)
        position = _skip_space(text, _skip_space(text, position) + 1)
        if key == wanted:
            return start, position
        position = _next(text, position)
    return None


def _item(text: str, position: int, wanted: int) -> tuple[int, int] | None:
    """Where an item of a list starts, twice."""
    if text[position] != "[":
        return None
    position = _skip_space(text, position + 1)
    for _ in range(wanted):
        if text[position] == "]":
            return None
        position = _next(text, position)
    return None if text[position] == "]" else (position, position)


def _next(text: str, position: int) -> int:
    """Skip a value, and the comma after it."""
    position = _skip_space(text, _DECODER.raw_decode(text, position)[1])
    return _skip_space(text, position + 1) if text[position] == "," else position


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position
