"""An orchestrator in memory: it does what it is asked, and remembers it."""

from __future__ import annotations

from cdk_gpu_clusters.node.gpunode.checks.check import Severity


class Willing:
    """An orchestrator.

    Attributes:
        out: Why the node is out of service for another reason.
        others: Other nodes that were taken out.
        held: Whether the hold of the software is in force.
        jobs: The work that it has on the node.
        asked: What was asked of it that changes something, in order.
    """

    size = 0
    knows_jobs = True

    def __init__(self) -> None:
        self.out = ""
        self.others: set[str] = set()
        self.held = False
        self.jobs = ""
        self.asked: list[str] = []

    def why_out(self) -> str:
        return self.out

    def taken_out(self, severity: Severity) -> set[str]:
        assert severity >= Severity.RESET
        return self.others

    def take_out(self, severity: Severity, reason: str) -> None:
        self.asked.append(f"take_out {severity.name}: {reason}")

    def hold(self, severity: Severity, reason: str) -> None:
        self.held = True
        self.asked.append(f"hold {severity.name}: {reason}")

    def holds(self) -> bool:
        return self.held

    def busy(self) -> str:
        return self.jobs

    def release(self) -> None:
        self.held = False
        self.asked.append("release")

    def reboot(self) -> bool:
        return False

    def keep_new_work_away(self, reason: str) -> None:
        raise AssertionError(reason)

    def end_work(self) -> str:
        raise AssertionError
