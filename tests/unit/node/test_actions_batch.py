"""AWS Batch as the orchestrator of a node: it powers itself off, and ends containers of jobs before its own end."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.actions.batch import Batch
from cdk_gpu_clusters.node.gpunode.actions.orchestrator import ActionError
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.node import Settings
from cdk_gpu_clusters.node.gpunode.watch.service import orchestrator_of
from watched_node import WatchedNode

JOB, AGENT, PAUSE = "a" * 64, "b" * 64, "c" * 64
# As Docker prints them; the container of the agent itself has no label, and the filter leaves it out.
CONTAINERS = f"{JOB} default\n{PAUSE} ~internal~ecs~pause\n"


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedNode:
    made = WatchedNode(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:/usr/bin:/bin")
    (tmp_path / "programs").mkdir()
    return made


def program(folder: Path, name: str, script: str) -> None:
    path = folder / "programs" / name
    path.write_text(f'#!/bin/sh\necho "{name} $*" >>{folder}/called\n{script}\n', encoding="utf-8")
    path.chmod(0o755)


def test_the_settings_name_it(watched: WatchedNode) -> None:
    node = watched.node()
    object.__setattr__(node, "settings", Settings({"orchestrator": "batch"}))
    assert isinstance(orchestrator_of(node), Batch)


def test_a_node_that_is_taken_out_powers_itself_off(watched: WatchedNode, tmp_path: Path) -> None:
    batch = Batch(watched.node())
    program(tmp_path, "systemctl", "")
    assert (batch.why_out(), batch.holds(), batch.taken_out(Severity.REPLACE)) == ("", True, set())
    batch.take_out(Severity.REPLACE, "Xid 79")
    assert (tmp_path / "called").read_text() == "systemctl --no-block poweroff\n"
    program(tmp_path, "systemctl", "echo no bus >&2; exit 1")
    with pytest.raises(ActionError, match="no bus"):
        batch.take_out(Severity.REPLACE, "Xid 79")


def test_containers_of_jobs_are_work_and_get_sigterm(watched: WatchedNode, tmp_path: Path) -> None:
    batch = Batch(watched.node())
    program(tmp_path, "docker", f'[ "$1" = kill ] || printf "{CONTAINERS}"')
    assert batch.busy() == "1 containers of AWS Batch"
    assert batch.end_work() == "SIGTERM to 1 containers of AWS Batch"
    assert (tmp_path / "called").read_text().splitlines()[-1] == f"docker kill --signal TERM {JOB}"
    program(tmp_path, "docker", "")
    assert (batch.busy(), batch.end_work()) == ("", "")


def test_docker_that_does_not_answer_is_no_idle_node(watched: WatchedNode, tmp_path: Path) -> None:
    batch = Batch(watched.node())
    program(tmp_path, "docker", "echo cannot connect >&2; exit 1")
    for ask in (batch.busy, batch.end_work):
        with pytest.raises(ActionError, match="cannot connect"):
            ask()
