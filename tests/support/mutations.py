"""One change each of a good resource's properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Mutation = Callable[[Json], None]


def put(path: str, value: Any) -> Mutation:
    """Set one value; the path is dotted, a number is a position in a list."""

    def mutate(properties: Json) -> None:
        *parents, last = path.split(".")
        node: Any = properties
        for step in parents:
            node = node[int(step)] if step.isdigit() else node.setdefault(step, {})
        node[int(last) if last.isdigit() else last] = value

    return mutate


def drop(path: str) -> Mutation:
    """Leave one value out."""

    def mutate(properties: Json) -> None:
        *parents, last = path.split(".")
        node: Any = properties
        for step in parents:
            node = node[step]
        del node[last]

    return mutate
