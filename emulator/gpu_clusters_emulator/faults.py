"""What AWS would refuse, as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One reason to refuse a resource.

    Attributes:
        check: Stable short name of the check, such as `reservation-type`.
        message: What is wrong, with the values.
        path: The property, such as `LaunchTemplateData/NetworkInterfaces/3`; empty for the resource itself.
    """

    check: str
    message: str
    path: str = ""

    def __str__(self) -> str:
        return f"[{self.check}] {self.path + ': ' if self.path else ''}{self.message}"


class Refused(ValueError):
    """A resource operation that AWS would refuse; carries every fault."""

    def __init__(self, subject: str, faults: Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(faults)
        super().__init__(f"{subject}: " + "; ".join(str(fault) for fault in self.faults))


def refuse(subject: str, faults: Iterable[Fault]) -> None:
    """Raise Refused if there are faults."""
    found = tuple(faults)
    if found:
        raise Refused(subject, found)


class ApiError(Exception):
    """An API call that fails, with its error code."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code}: {message}")
