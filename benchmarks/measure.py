"""Runs subjects in turn, and says how they compare."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from processes import Run, run
from subjects import Subject


@dataclass(slots=True)
class Series:
    """The runs of several subjects, one of each in every round.

    A ratio is taken within each round and then its median, so that a machine that slows down for a while slows both.
    """

    runs: dict[str, list[Run]] = field(default_factory=dict)

    def wall_s(self, subject: Subject) -> float:
        """Median time from start to end."""
        return statistics.median(run.wall_s for run in self.runs[subject.name])

    def cpu_s(self, subject: Subject) -> float:
        """Median processor time."""
        return statistics.median(run.cpu_s for run in self.runs[subject.name])

    def wall_ratio(self, subject: Subject, other: Subject) -> float:
        """How many times as long as the other it takes."""
        return self._ratio(subject, other, lambda run: run.wall_s)

    def cpu_ratio(self, subject: Subject, other: Subject) -> float:
        """How many times as much processor time it takes."""
        return self._ratio(subject, other, lambda run: run.cpu_s)

    def _ratio(self, subject: Subject, other: Subject, of: Callable[[Run], float]) -> float:
        pairs = zip(self.runs[subject.name], self.runs[other.name], strict=True)
        return statistics.median(of(one) / of(two) for one, two in pairs)


def interleaved(subjects: Sequence[Subject], rounds: int) -> Series:
    """Run every subject once a round, after one round that does not count."""
    series = Series({subject.name: [] for subject in subjects})
    for number in range(rounds + 1):
        for subject in subjects:
            done = run(subject.command, subject.environment())
            if number:
                series.runs[subject.name].append(done)
    return series
