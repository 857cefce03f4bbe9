"""Health checks of a node: their results, and what many of them need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from .. import nvidia_smi
from ..node import Node
from ..nvidia_smi import QueryResult
from ..quoting import one_line


class Severity(IntEnum):
    """The action that a finding requires, from nothing to a new node."""

    OK = 0
    #: Undetermined: a tool is missing, or there is no expected value.
    UNKNOWN = 1
    #: Watch it; the node keeps working.
    MONITOR = 2
    #: The GPU must be reset while it is idle.
    RESET = 3
    #: The node must be rebooted.
    REBOOT = 4
    #: The host is faulty: another node.
    REPLACE = 5


@dataclass(frozen=True)
class Result:
    """The result of one check.

    Attributes:
        check: Name of the check.
        severity: The action that it requires.
        found: The actual state.
        expected: The expected state; empty if there is none.
        fix: What to do; empty if nothing is wrong.
        is_acceptable: Whether a node may begin to work with it. A node in service goes on with some faults that a new
            one is not accepted with, such as a link that is down.
    """

    check: str
    severity: Severity
    found: str
    expected: str = ""
    fix: str = ""
    is_acceptable: bool = True

    def __post_init__(self) -> None:
        # It is printed, and holds what tools print.
        object.__setattr__(self, "found", one_line(self.found))


Check = Callable[[Node], Iterable[Result]]


class Undetermined(Exception):
    """A check has no result: a tool is missing or does not answer. Counts as `UNKNOWN`, with its text."""


def query_gpus(fields: Sequence[str], *, what: str = "gpu") -> QueryResult:
    """Query the GPUs, of which at least one answers.

    Raises:
        Undetermined: If none answers.
    """
    answer = nvidia_smi.query(fields, what=what)
    if not answer.rows:
        raise Undetermined(f"nvidia-smi: {'; '.join(answer.without_row) or answer.outcome.words or 'lists no GPU'}")
    return answer


def gpu_rows(fields: Sequence[str], *, what: str = "gpu") -> list[dict[str, str]]:
    """One row for each GPU that answers.

    Raises:
        Undetermined: If none answers.
    """
    return query_gpus(fields, what=what).rows


def of_all_gpus(check: str, node: Node, findings: Iterable[Result], found: str, *, known: int) -> list[Result]:
    """The findings of a check of every GPU, or one OK result if it got the values of all of them.

    GPUs without a value are UNKNOWN here. The check of GPUs reports what is wrong with them.

    Args:
        known: The number of GPUs that the check got its values of.
    """
    wanted = node.settings.number("accelerator_count")
    results = list(findings)
    if known < wanted:
        words = f"{wanted - known} of {wanted} GPUs gave no value"
        results.append(Result(check, Severity.UNKNOWN, words, fix="see the check gpus"))
    return or_well(check, results, found)


def or_well(check: str, findings: Iterable[Result], found: str) -> list[Result]:
    """The findings of a check, or one OK result."""
    return list(findings) or [Result(check, Severity.OK, found)]
