"""Something that a look at the node saw and that is not well."""

from __future__ import annotations

from dataclasses import dataclass

from ..checks.check import Severity


@dataclass(frozen=True)
class Symptom:
    """What one look saw.

    Attributes:
        key: What it is, the same in every look that sees it.
        severity: What it asks for.
        reason: What was seen, in a sentence.
        looks: How many looks in a row must see it before it is believed: more than one where a single observation can
            be wrong.
        lasting: Whether it is a condition, which the next look sees again and which can end. Otherwise it is an
            event, such as a message of the kernel: it is said once, and stays true.
    """

    key: str
    severity: Severity
    reason: str
    looks: int = 1
    lasting: bool = True
