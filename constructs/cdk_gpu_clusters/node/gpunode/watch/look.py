"""A look at the node that the watchdog takes again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .symptom import Symptom


@dataclass(frozen=True)
class Look:
    """One look.

    Attributes:
        name: Its name in events; symptoms of looks of other names are not its own.
        take: Takes it: what is not well.
        every: It is taken once in so many polls.
    """

    name: str
    take: Callable[[], Iterable[Symptom]]
    every: int = 1
