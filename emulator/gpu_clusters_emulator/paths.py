"""Reference paths: `$`, `$.detail.end-date`, `$.Groups[0].Name`, `$['a b']`.

The subset of JSONPath that names one value; wildcards, filters and slices are not emulated.
"""

from __future__ import annotations

import re
from typing import Any

_STEP = re.compile(r"\.([A-Za-z0-9_\-]+)|\[(\d+)\]|\['([^']+)'\]|\[\"([^\"]+)\"\]")


class PathError(KeyError):
    """The path names nothing."""


def _steps(path: str) -> list[str | int]:
    if not path.startswith("$"):
        raise PathError(path)
    rest, steps = path[1:], list[str | int]()
    while rest:
        found = _STEP.match(rest)
        if found is None:
            raise PathError(f"{path}: {rest!r} is not emulated")
        name, index, single, double = found.groups()
        steps.append(int(index) if index is not None else name or single or double)
        rest = rest[found.end() :]
    return steps


def lookup(path: str, document: Any) -> Any:
    """The value that a path names.

    Raises:
        PathError: If it names nothing.
    """
    value = document
    for step in _steps(path):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            raise PathError(path) from None
    return value


def is_present(path: str, document: Any) -> bool:
    """Whether a path names a value."""
    try:
        lookup(path, document)
    except PathError:
        return False
    return True


def place(path: str, document: Any, value: Any) -> Any:
    """A copy of `document` with `value` at `path`.

    Raises:
        PathError: If the path uses an index, which a result path may not create.
    """
    steps = _steps(path)
    if not steps:
        return value
    root = dict(document) if isinstance(document, dict) else {}
    node = root
    for step in steps[:-1]:
        if isinstance(step, int):
            raise PathError(path)
        below = node.get(step)
        node[step] = dict(below) if isinstance(below, dict) else {}
        node = node[step]
    node[str(steps[-1])] = value
    return root
