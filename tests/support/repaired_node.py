"""A node under repair in memory, with the real response, ladder and history, and a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import paths
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.repair.history import History, Repair
from cdk_gpu_clusters.node.gpunode.repair.limit import Silence
from cdk_gpu_clusters.node.gpunode.slots import UNCOUNTED
from cdk_gpu_clusters.node.gpunode.watch.probes import Symptom
from cdk_gpu_clusters.node.gpunode.watch.response import NodeSteps, Response, ResponseResult, SlotsOfFleet
from orchestrators import Willing

INSTANCE = "i-0123456789abcdef0"
RESET = Symptom("xid-119", Severity.RESET, "Xid 119", lasting=False)
REBOOT = Symptom("xid-95", Severity.REBOOT, "Xid 95", lasting=False)
REPLACE = Symptom("xid-79", Severity.REPLACE, "Xid 79", lasting=False)
LIMITS = {Severity.RESET: 20, Severity.REBOOT: 10, Severity.REPLACE: 2}


class Dies(BaseException):
    """A process that is killed in the middle of something."""


class Room:
    """A fleet that has room, unless a test takes it."""

    def __init__(self) -> None:
        self.free = True

    def has_room(self, kind: str, limit: int) -> bool:
        return self.free

    def take(self, kind: str, limit: int) -> str:
        return UNCOUNTED if self.free else ""


class Hardware:
    """What a repair does on the node.

    Attributes:
        works: What runs on it.
        leftover: Whether that is no job.
        resets: Outcomes of the next resets: why they fail, or empty.
        checks: Outcomes of the next checks.
        done: What was done, in order.
    """

    def __init__(self, node: RepairedNode) -> None:
        self._node = node
        self.works, self.suspended, self.boot = "", "", "ready"
        self.leftover = False
        self.resets: list[str] = []
        self.checks: list[str] = []
        self.done: list[str] = []

    def why_suspended(self) -> str:
        return self.suspended

    def work(self) -> str:
        return self.works or self._node.fleet.busy()

    def is_leftover(self) -> bool:
        return self.leftover

    def end_work(self) -> None:
        self.done.append("end-work")
        self.works = ""

    def reset(self) -> str:
        assert not self.works, "a job was on the GPUs"
        self.done.append("reset")
        return self.resets.pop(0) if self.resets else ""

    def reboot(self) -> None:
        self.done.append("reboot")
        self._node.boots += 1

    def boot_result(self) -> str:
        return self.boot

    def check(self) -> str:
        self.done.append("check")
        return self.checks.pop(0) if self.checks else ""


class RepairedNode:
    """One node.

    Attributes:
        now: Seconds since 1970; the uptime goes with it.
        boots: Boots so far.
        walk: Steps that were reported, in order.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.boots = 1_800_000_000.0, 1
        monkeypatch.setenv("GPU_CLUSTER_ROOT", str(folder))
        monkeypatch.setattr(paths, "boot_id", lambda: f"boot-{self.boots}")
        monkeypatch.setattr(paths, "uptime_seconds", lambda: self.now - 1_799_000_000.0)
        self.fleet, self.room = Willing(), Room()
        self.hardware = Hardware(self)
        self.evidence: list[str] = []
        self.walk: list[str] = []
        self.before_step: Callable[[str], None] = lambda _: None
        self.start()

    def start(self, *, steps: NodeSteps | None = None, slots: SlotsOfFleet | None = None) -> None:
        """A new process of the watchdog."""
        self.history = History(INSTANCE, clock=lambda: self.now)
        self.response = Response(
            self.fleet,
            keep_evidence=self._keep,
            history=self.history,
            steps=steps or self.hardware,
            limits=LIMITS,
            dry_run=False,
            slots=slots or self.room,
            silence=Silence(clock=lambda: self.now, chance=lambda: 0.5),
            clock=lambda: self.now,
            chance=lambda: 0.5,
        )
        self.response.report = self._report

    def respond(self, *symptoms: Symptom) -> ResponseResult:
        return self.response.respond(symptoms)

    def _keep(self, reason: str) -> str:
        self.evidence.append(reason)
        return f"s3://evidence/{len(self.evidence)}.tar.gz"

    def _report(self, step: str, words: str, repair: Repair) -> None:
        assert words
        self.walk.append(f"{repair.rung.name.lower()} {step}")
        self.before_step(step)
