"""Takes the looks of each poll, beside each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..background import Background
from ..checks.check import Severity
from .look import Look
from .symptom import Symptom

#: How long a poll waits; answers that come later are taken by a later poll.
PATIENCE_SECONDS = 2.0
# Programs have deadlines of a minute, and some looks run more than one.
_LATE_SECONDS = 180.0


class Seen(NamedTuple):
    """What one look saw.

    Attributes:
        look: Name of the look.
        symptoms: What is not well.
    """

    look: str
    symptoms: list[Symptom]


class Rounds:
    """Takes looks again and again; one that breaks or hangs holds back neither the others nor the loop."""

    def __init__(
        self,
        looks: Sequence[Look],
        *,
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._looks = {look: Background[list[Symptom]]() for look in looks}
        self._clock, self._patience = clock, patience_seconds

    def poll(self, number: int) -> list[Seen]:
        """Begin the looks that are due, and take what is there.

        Args:
            number: Number of the poll.
        """
        broken = [seen for look in self._looks for seen in self._begin(look, number)]
        end = time.monotonic() + self._patience
        found = []
        for look, work in self._looks.items():
            symptoms = work.take(end - time.monotonic())
            if symptoms is not None:
                found.append(Seen(look.name, symptoms))
        return [*broken, *found, Seen("late", self._late())]

    def _begin(self, look: Look, number: int) -> list[Seen]:
        work = self._looks[look]
        if work.busy or number % look.every:
            return []
        try:
            work.start(lambda: _take(look), self._clock())
        except RuntimeError as fault:
            return [Seen(look.name, [_broken(look, fault)])]
        return []

    def _late(self) -> list[Symptom]:
        now = self._clock()
        spent = {look.name: work.seconds(now) for look, work in self._looks.items()}
        return [
            Symptom(f"late-{name}", Severity.UNKNOWN, f"the look at {name} has not come back for minutes")
            for name, seconds in spent.items()
            if seconds >= _LATE_SECONDS
        ]


def _take(look: Look) -> list[Symptom]:
    try:
        return list(look.take())
    except Exception as fault:  # noqa: BLE001 - a broken look says nothing about the node
        return [_broken(look, fault)]


def _broken(look: Look, fault: Exception) -> Symptom:
    words = f"the look at {look.name} itself failed: {type(fault).__name__}: {fault}"
    return Symptom(f"broken-{look.name}", Severity.UNKNOWN, words)
