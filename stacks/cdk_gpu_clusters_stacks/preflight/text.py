"""What preflight found, as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .check import WORST_FIRST, Outcome
from .run import CheckResult, Preflight

# As wide as "cannot tell".
_WIDTH = max(len(outcome) for outcome in Outcome if outcome is not Outcome.NOT_APPLICABLE)


class Line(NamedTuple):
    """One line; the outcome that it begins with, if any, is to be seen at a glance."""

    outcome: Outcome | None
    text: str


def format_preflight(preflight: Preflight) -> Iterator[Line]:
    """Write one line for each check that applies, what it found below it, and a line that counts them."""
    account = f"account {preflight.account}" if preflight.account else "an unknown account"
    yield Line(None, f"{preflight.cluster} in {preflight.region}, {account}")
    for result in preflight.results:
        if result.outcome is not Outcome.NOT_APPLICABLE:
            yield from _lines(result)
    counts = [(preflight.count(outcome), outcome) for outcome in WORST_FIRST]
    yield Line(None, ", ".join(f"{number} {outcome}" for number, outcome in counts if number))


def _lines(result: CheckResult) -> Iterator[Line]:
    yield Line(result.outcome, f"{result.id} {result.title}")
    for verdict in result.verdicts:
        if verdict.outcome is not Outcome.PASS:
            where = f"{verdict.about}: " if verdict.about else ""
            yield Line(None, f"{' ' * _WIDTH}  {where}{verdict.cause}")
            if verdict.fix:
                yield Line(None, f"{' ' * _WIDTH}    fix: {verdict.fix}")


def padded(outcome: Outcome) -> str:
    """An outcome, as wide as the longest of those that are written."""
    return f"{outcome.value:<{_WIDTH}}"
