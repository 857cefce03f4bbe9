"""What a node that ends does so that it gets no new work, and which orchestrator it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import drain
from cdk_gpu_clusters.node.gpunode.actions.auto_scaling import AutoScaling
from cdk_gpu_clusters.node.gpunode.actions.kubernetes import Kubernetes
from cdk_gpu_clusters.node.gpunode.actions.slurm import Slurm
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.drain import mark_ending
from cdk_gpu_clusters.node.gpunode.watch.service import orchestrator_of
from orchestrators import Willing
from watched_node import Told, WatchedNode


class Flaky(Willing):
    """An orchestrator that fails some times before it does what it is told."""

    def __init__(self, *faults: Exception) -> None:
        super().__init__()
        self.faults = list(faults)
        self.marked: list[str] = []

    def take_out(self, severity: Severity, reason: str) -> None:
        raise AssertionError(reason)

    def keep_new_work_away(self, reason: str) -> None:
        if self.faults:
            raise self.faults.pop()
        self.marked.append(reason)

    def end_work(self) -> str:
        raise AssertionError


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(drain, "_MARK_PAUSE_SECONDS", 0)
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))


def test_fault_is_told_and_the_mark_tried_again() -> None:
    flaky, told = Flaky(KeyError("spec"), RuntimeError()), Told()
    mark_ending(flaky, told, "spot-interruption")
    assert flaky.marked == ["spot-interruption"]
    assert told.of("mark") == [("failed", "RuntimeError"), ("failed", "'spec'"), ("ok", "spot-interruption")]


def test_orchestrator_that_never_answers_does_not_hold_the_drain() -> None:
    told = Told()
    mark_ending(Flaky(*[OSError("no route")] * 9), told, "autoscaling-termination")
    assert told.of("mark") == [("failed", "no route")] * 3


def test_node_without_an_orchestrator_marks_nothing() -> None:
    told = Told()
    mark_ending(None, told, "spot-interruption")
    assert told.all == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ec2", AutoScaling),
        ("EKS", Kubernetes),
        ("slurm", Slurm),
        ("pcs", Slurm),
        ("", type(None)),
        ("nomad", type(None)),
    ],
)
def test_setting_names_the_orchestrator(tmp_path: Path, name: str, kind: type[object]) -> None:
    assert type(orchestrator_of(WatchedNode(tmp_path / "node").node(orchestrator=name))) is kind


def test_auto_scaling_needs_no_mark_and_runs_no_jobs(tmp_path: Path) -> None:
    watched = WatchedNode(tmp_path / "node")
    AutoScaling(watched.node()).keep_new_work_away("spot-interruption")
    assert AutoScaling(watched.node()).end_work() == ""
    assert watched.account.made == []
