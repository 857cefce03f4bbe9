"""The checks of `gpunode verify`, taken again and again.

What changes while a node works is watched; what only another image or type would change (driver, PCIe, NUMA, MIG) is
left to the boot and to `verify`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..checks.check import Check, Result, Severity, Untold
from ..node import Node
from .look import Look
from .symptom import Symptom


class _Pace(NamedTuple):
    """How often a check is taken, in polls, and how many looks in a row must agree.

    Counters and flags of the driver are what they are: two looks, against one garbled answer. What a person may
    cause for moments, by a reset of a GPU or a restart of a driver, must last a minute or longer. Costly checks are
    taken less often.
    """

    every: int
    looks: int


_PACES: Mapping[str, _Pace] = {
    "gpus": _Pace(1, 6),
    "ecc": _Pace(1, 2),
    "row-remapping": _Pace(1, 2),
    "clocks": _Pace(1, 6),
    "sram": _Pace(6, 2),
    "recovery": _Pace(6, 2),
    "nvlink": _Pace(6, 3),
    "fabric": _Pace(6, 3),
    "neuron": _Pace(6, 3),
    "neuron-memory": _Pace(1, 2),
    "efa": _Pace(6, 3),
    "lustre": _Pace(3, 2),
}


def looks_at(node: Node, checks: Mapping[str, Check]) -> list[Look]:
    """The looks for those checks of a node that are watched.

    Args:
        node: The node.
        checks: Its checks by name, as `checks_of` gives them.
    """
    return [_look(node, name, check) for name, check in checks.items() if name in _PACES]


def _look(node: Node, name: str, check: Check) -> Look:
    pace = _PACES[name]

    def take() -> Iterator[Symptom]:
        try:
            for result in check(node):
                if result.severity is not Severity.OK:
                    yield _symptom(result, pace.looks)
        except Untold as reason:
            yield Symptom(name, Severity.UNKNOWN, str(reason), pace.looks)

    return Look(name, take, pace.every)


def _symptom(result: Result, looks: int) -> Symptom:
    words = f"{result.found} (expected: {result.expected})" if result.expected else result.found
    return Symptom(f"{result.check}-{result.severity.name.lower()}", result.severity, words, looks)
