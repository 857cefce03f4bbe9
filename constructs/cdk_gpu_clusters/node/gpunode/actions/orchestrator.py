"""The orchestrator that assigns work to this node, and how to keep work away from it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Protocol

from ..checks.check import Severity

#: Beginning of every reason that this software leaves with an orchestrator.
SIGNATURE = "gpunode"
HOUR_SECONDS = 3600.0


class ActionError(Exception):
    """The orchestrator refused or did not answer; the text is the reason."""


def moment_of(text: str) -> float | None:
    """A time such as 2026-12-15T10:50:00Z, in seconds since 1970; None for anything else."""
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


class Orchestrator(Protocol):
    """The operations that the watchdog and the drain need of an orchestrator."""

    def why_out(self) -> str:
        """Why this node already gets no new work, for any reason; empty while it gets work.

        Raises:
            ActionError: If the orchestrator does not answer.
        """

    def taken_out(self) -> set[str]:
        """Other nodes of the fleet that were taken out for their health within the last hour.

        Raises:
            ActionError: If the orchestrator does not answer.
        """

    def take_out(self, severity: Severity, reason: str) -> None:
        """Take this node out of service.

        Raises:
            ActionError: If it fails.
        """

    def keep_new_work_away(self, reason: str) -> None:
        """Mark a node that is about to end.

        Raises:
            ActionError: If it fails.
        """

    def end_work(self) -> str:
        """Send SIGTERM to the jobs on this node, since the node is about to end.

        Returns:
            What was done; empty for nothing.

        Raises:
            ActionError: If it fails.
        """
