"""Health checks of a node: their results, and what many of them need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from .. import nvidia_smi
from ..node import Node


class Severity(IntEnum):
    """What a finding asks for, from nothing to a new node."""

    OK = 0
    #: Cannot be told here: a tool is missing, or nothing says what is right.
    UNKNOWN = 1
    #: Watch it; the node goes on.
    MONITOR = 2
    #: The GPU has to be reset, with nothing on it.
    RESET = 3
    #: The node has to be rebooted.
    REBOOT = 4
    #: The host is faulty: another node.
    REPLACE = 5


@dataclass(frozen=True)
class Result:
    """What one check found.

    Attributes:
        check: Name of the check.
        severity: What it asks for.
        found: What is there.
        expected: What should be there; empty where nothing says it.
        fix: What to do; empty where nothing is wrong.
    """

    check: str
    severity: Severity
    found: str
    expected: str = ""
    fix: str = ""


Check = Callable[[Node], Iterable[Result]]


class Undetermined(Exception):
    """It cannot be told: a tool is missing, or does not answer. Counts as `UNKNOWN`, with its text."""


def gpu_rows(fields: Sequence[str], *, what: str = "gpu") -> list[dict[str, str]]:
    """One row for each GPU that answers; the check of GPUs tells of the others.

    Args:
        fields: Fields of `nvidia-smi --query-...`.
        what: Which query.

    Raises:
        Untold: If none answers.
    """
    answer = nvidia_smi.query(fields, what=what)
    if not answer.rows:
        raise Undetermined(f"nvidia-smi: {'; '.join(answer.lost) or answer.outcome.words or 'lists no GPU'}")
    return answer.rows


def or_well(check: str, findings: Iterable[Result], found: str) -> list[Result]:
    """The findings of a check, or that all is well.

    Args:
        check: Name of the check.
        findings: What is wrong.
        found: What is there, for people.
    """
    return list(findings) or [Result(check, Severity.OK, found)]


def list_indexes(indexes: Sequence[str]) -> str:
    """GPUs by their indexes in one word, such as `0-3,5`."""
    numbers = sorted(int(index) for index in indexes)
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
