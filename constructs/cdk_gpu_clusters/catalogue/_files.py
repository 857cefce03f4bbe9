"""Read the catalogue's data files, each at most once and only when first asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

DATA = Path(__file__).parent / "data"
_Record = TypeVar("_Record")


@cache
def read_json(name: str) -> dict[str, Any]:
    """The content of one JSON data file; treat it as read-only, it is shared."""
    content: dict[str, Any] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return content


def record(kind: Callable[..., _Record], row: Mapping[str, Any], **values: Any) -> _Record:
    """A row of a data file as a dataclass, with enumerations, tuples and sets as its fields are declared.

    Args:
        kind: The dataclass.
        row: Its fields by name, and others. A field that may be None may be absent.
        values: Fields that are not in the row as they are.

    Raises:
        KeyError: If the row lacks a field.
    """
    for name, (convert, is_optional) in _fields(kind).items():
        if name not in values:
            value = row.get(name) if is_optional else row[name]
            values[name] = value if value is None or convert is None else convert(value)
    return kind(**values)


@cache
def _fields(kind: Any) -> Mapping[str, tuple[Callable[[Any], Any] | None, bool]]:
    """How each field is converted, and whether it may be None."""
    fields = {}
    for name, hint in get_type_hints(kind).items():
        options = get_args(hint) if NoneType in get_args(hint) else (hint,)
        made = get_origin(options[0]) or options[0]
        is_converted = made in (tuple, frozenset) or (isinstance(made, type) and issubclass(made, Enum))
        fields[name] = (made if is_converted else None, len(options) > 1)
    return fields
