"""Who gives work to this node, and how it is told to give none."""

from __future__ import annotations

from typing import Protocol

from ..checks.check import Severity

#: Beginning of every reason that this software leaves with an orchestrator.
SIGNATURE = "gpunode"
HOUR_SECONDS = 3600.0


class ActionError(Exception):
    """The orchestrator refused, or did not answer; the text says why."""


class Orchestrator(Protocol):
    """What the watchdog needs of an orchestrator."""

    def why_out(self) -> str:
        """Why this node gets no new work already, whoever decided it; empty while it gets some.

        Raises:
            ActionError: If the orchestrator does not say.
        """

    def taken_out(self) -> set[str]:
        """Other nodes of the fleet that were taken out for their health within the last hour.

        Raises:
            ActionError: If the orchestrator does not say.
        """

    def take_out(self, severity: Severity, reason: str) -> None:
        """Take this node out of service.

        Args:
            severity: What the fault asks for.
            reason: Why, for people.

        Raises:
            ActionError: If it is not done.
        """

    def keep_new_work_away(self, reason: str) -> None:
        """Mark a node that is about to end.

        Args:
            reason: Why it ends.

        Raises:
            ActionError: If it is not done.
        """

    def end_work(self) -> str:
        """Ask the jobs that run on this node to end, by SIGTERM, since the node is about to.

        Returns:
            What was done; empty for nothing.

        Raises:
            ActionError: If it is not done.
        """
