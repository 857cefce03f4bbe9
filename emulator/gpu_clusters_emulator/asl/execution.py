"""One run of a state machine, and what it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


class StateError(Exception):
    """An error inside a state, with the name that Retry and Catch see."""

    def __init__(self, name: str, cause: str) -> None:
        self.name = name
        self.cause = cause
        super().__init__(f"{name}: {cause}")


@dataclass(slots=True, kw_only=True)
class Execution:
    """One run.

    Attributes:
        status: RUNNING, SUCCEEDED or FAILED.
        states: Names of the states entered, in order.
        calls: The API calls its tasks made: service, operation and parameters.
        waited: `Wait` states that were skipped, with their settings.
    """

    name: str
    input: Any
    status: str = "RUNNING"
    output: Any = None
    error: str = ""
    cause: str = ""
    states: list[str] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    waited: list[Json] = field(default_factory=list)

    def document(self) -> Json:
        """The execution as JSON."""
        return {
            "name": self.name,
            "status": self.status,
            "input": self.input,
            "output": self.output,
            "error": self.error,
            "cause": self.cause,
            "states": self.states,
            "calls": self.calls,
            "waited": self.waited,
        }
