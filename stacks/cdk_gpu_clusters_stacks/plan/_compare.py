"""Compare what resources are made from: which keys of the file differ, and what follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .change_model import Change, Effect

#: What a resource is made from: key of the file -> value, which only has to compare.
Made = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What is said of a resource's type for each effect; a missing text is empty.

    Attributes:
        updated, replaced, added, removed: What happens to it.
        nodes: What happens to running nodes.
        data: What happens to data.
        data_replaced: The same for what is replaced.
        source: What it rests on.
    """

    updated: str = ""
    replaced: str = ""
    added: str = ""
    removed: str = ""
    nodes: str = ""
    data: str = ""
    data_replaced: str = ""
    source: str = ""


def compare(
    stack: str,
    resource: str,
    sides: Iterable[Made | None],
    words: Words,
    *,
    replacing: frozenset[str] = frozenset(),
) -> list[Change]:
    """The change of one resource.

    Args:
        stack: Its stack.
        resource: Its CloudFormation type.
        sides: What it was made from, and what it is made from; None where there was, or is, none.
        words: What is said of it.
        replacing: Keys whose change replaces it.
    """
    before, after = sides
    keys = changed_keys(before or {}, after or {})
    if not keys:
        return []
    if before is None or after is None:
        effect = Effect.ADDED if before is None else Effect.REMOVED
        # Only what decides whether there is one is the cause, where that is known.
        keys = tuple(key for key in keys if key in replacing) or keys
    else:
        effect = Effect.REPLACED if replacing.intersection(keys) else Effect.UPDATED
    return [
        Change(
            stack=stack,
            resource=resource,
            effect=effect,
            keys=keys,
            words=getattr(words, effect.value),
            nodes=words.nodes,
            data=words.data_replaced if effect is Effect.REPLACED else words.data,
            source=words.source,
        )
    ]


def changed_keys(before: Made, after: Made) -> tuple[str, ...]:
    """Keys whose values differ, sorted."""
    missing = object()
    names = {*before, *after}
    return tuple(sorted(name for name in names if before.get(name, missing) != after.get(name, missing)))
