"""AWS Batch: a node that is taken out powers itself off, and the Auto Scaling group of Batch launches another.

Batch calls changes of its group, its cluster and its instances by anyone else unsupported (AWS Batch user guide,
"Update a compute environment in AWS Batch"). So this software makes no call of its own. To Batch, an
instance that stops is a broken host: its containers end, and the retry strategy of their job decides whether it starts
again.
"""

from __future__ import annotations

import re

from ..checks.check import Severity
from ..command import run
from ..node import Node
from .orchestrator import ActionError

_TIMEOUT_SECONDS = 30
# Labels that the ECS agent gives each container. Its own one holds the network interface of the others
# (aws/amazon-ecs-agent, agent/engine/docker_task_engine.go).
_NAME = "com.amazonaws.ecs.container-name"
_OF_THE_AGENT = "~internal~"
_CONTAINER = re.compile(r"[0-9a-f]{12,64}")


class Batch:
    """Powers this node off."""

    def __init__(self, _: Node) -> None:
        self.size: int = 0
        self.knows_jobs: bool = True

    def why_out(self) -> str:
        """Nothing: a node that Batch takes out ends."""
        return ""

    def taken_out(self, severity: Severity) -> set[str]:  # noqa: ARG002 - Batch does not tell
        """No node: Batch does not tell. The slots of the fleet count the repairs."""
        return set()

    def take_out(self, severity: Severity, reason: str) -> None:  # noqa: ARG002 - nobody takes the reason
        """Power the node off, in the background: the reason has been reported."""
        done = run("systemctl", "--no-block", "poweroff", timeout_seconds=_TIMEOUT_SECONDS)
        if not done.ok:
            raise ActionError(f"systemctl poweroff: {done.words}")

    def hold(self, severity: Severity, reason: str) -> None:
        """Nothing: only Batch itself can keep containers away from a node."""

    def holds(self) -> bool:
        """Whether the node is still its own: always."""
        return True

    def busy(self) -> str:
        """The containers of jobs on this node.

        Raises:
            ActionError: If Docker does not answer.
        """
        found = self._containers()
        return f"{len(found)} containers of AWS Batch" if found else ""

    def release(self) -> None:
        """Nothing, since there is no hold."""

    def reboot(self) -> bool:
        """Nothing: the node reboots itself."""
        return False

    def keep_new_work_away(self, reason: str) -> None:
        """Nothing: only Batch itself can."""

    def end_work(self) -> str:
        """Send SIGTERM to the containers of jobs; Batch does not do so before a node ends.

        Raises:
            ActionError: If Docker does not answer.
        """
        found = self._containers()
        if not found:
            return ""
        done = run("docker", "kill", "--signal", "TERM", *found, timeout_seconds=_TIMEOUT_SECONDS)
        if not done.ok:
            raise ActionError(f"docker kill: {done.words}")
        return f"SIGTERM to {len(found)} containers of AWS Batch"

    def _containers(self) -> list[str]:
        form = f'{{{{.ID}}}} {{{{.Label "{_NAME}"}}}}'
        listed = run(
            "docker",
            "ps",
            "--no-trunc",
            "--filter",
            f"label={_NAME}",
            "--format",
            form,
            timeout_seconds=_TIMEOUT_SECONDS,
        )
        if not listed.ok:
            raise ActionError(f"docker ps: {listed.words}")
        rows = (line.split(maxsplit=1) for line in listed.output.splitlines() if line.strip())
        return [
            row[0] for row in rows if _CONTAINER.fullmatch(row[0]) and not "".join(row[1:]).startswith(_OF_THE_AGENT)
        ]
