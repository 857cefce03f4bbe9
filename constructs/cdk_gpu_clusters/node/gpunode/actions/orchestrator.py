"""The orchestrator that assigns work to this node, and how to keep work away from it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Protocol

from ..checks.check import Severity

#: Beginning of every reason that this software leaves with an orchestrator.
SIGNATURE = "gpunode"
HOUR_SECONDS = 3600.0
#: The repairs that keep new work away, as they stand in reasons.
REPAIRS = {severity.name.lower(): severity for severity in (Severity.RESET, Severity.REBOOT, Severity.REPLACE)}


class ActionError(Exception):
    """The orchestrator refused or did not answer; the text is the reason."""


class NotYet(ActionError):
    """It cannot be done now, and soon can; the text is the reason."""


def moment_of(text: str) -> float | None:
    """A time such as 2026-12-15T10:50:00Z, in seconds since 1970; None for anything else."""
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


class Orchestrator(Protocol):
    """The operations that the watchdog and the drain need of an orchestrator.

    Attributes:
        size: Nodes of the fleet when it was last counted; 0 if that is unknown.
        knows_jobs: Whether all jobs of the node are started by it, so that other processes are none.
    """

    size: int
    knows_jobs: bool

    def why_out(self) -> str:
        """Why this node already gets no new work, for any reason; empty while it gets work.

        Raises:
            ActionError: If the orchestrator does not answer.
        """

    def taken_out(self, severity: Severity) -> set[str]:
        """Other nodes of the fleet that were taken out for their health within the last hour.

        Args:
            severity: The least severe repair that counts, as far as the orchestrator knows them.

        Raises:
            ActionError: If the orchestrator does not answer.
        """

    def take_out(self, severity: Severity, reason: str) -> None:
        """Take this node out of service permanently.

        Raises:
            ActionError: If it fails.
        """

    def hold(self, severity: Severity, reason: str) -> None:
        """Keep new work away from this node while it is repaired. Harmless when repeated.

        Raises:
            ActionError: If it fails.
        """

    def holds(self) -> bool:
        """Whether the hold of this software is in force, and unchanged by anyone else.

        Raises:
            ActionError: If the orchestrator does not answer.
        """

    def busy(self) -> str:
        """The work that the orchestrator has on this held node; empty if there is none, or if it does not know.

        Raises:
            ActionError: If the orchestrator does not answer.
        """

    def release(self) -> None:
        """Give this node work again, if the hold is this software's own. Harmless when repeated.

        Raises:
            NotYet: If the node cannot take work yet.
            ActionError: If it fails.
        """

    def reboot(self) -> bool:
        """Ask the orchestrator to reboot this held node, if it wants to do that itself.

        Returns:
            Whether it was asked; otherwise the node reboots itself.

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
