"""What must hold of every group of nodes in a template, each with the published rule that it is read from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from matrix.nodes import Nodes

Check = Callable[[Nodes], Iterator[str]]

_INVARIANTS: dict[str, Invariant] = {}


@dataclass(frozen=True, slots=True)
class Invariant:
    """One rule: its id, the source that it was read from, and the check, which says what is wrong."""

    id: str
    source: str
    check: Check


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold of some nodes."""

    id: str
    what: str


def invariant(invariant_id: str, source: str) -> Callable[[Check], Check]:
    """Register a check as an invariant.

    Args:
        invariant_id: Unique id.
        source: The page or repository that says so.
    """

    def register(check: Check) -> Check:
        assert invariant_id not in _INVARIANTS, f"{invariant_id} is defined twice"
        _INVARIANTS[invariant_id] = Invariant(invariant_id, source, check)
        return check

    return register


@cache
def invariants() -> Mapping[str, Invariant]:
    """Every invariant by id."""
    # Importing registers them.
    from matrix import (  # noqa: F401
        invariants_access,
        invariants_capacity,
        invariants_compute_node_groups,
        invariants_groups,
        invariants_interfaces,
        invariants_node_groups,
        invariants_nodes,
        invariants_storage,
    )

    return dict(_INVARIANTS)


def violations(nodes: Nodes) -> list[Violation]:
    """What does not hold of some nodes."""
    return [Violation(each.id, what) for each in invariants().values() for what in each.check(nodes)]
