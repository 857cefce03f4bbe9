"""What a node does before it ends, in which order, and what does not hold it back."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import cli, command, drain, jobs, paths, state
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.drain import Ending
from orchestrators import Willing
from watched_node import GROUP, INSTANCE, Told, WatchedNode

SPOT = Ending("spot-interruption 2026-12-01T12:02:00Z", seconds_left=120)
TERMINATION = Ending("autoscaling-termination", is_termination=True)
SLEEPS = "import time; print(1, flush=True); time.sleep(600)"


class Fleet(Willing):
    """An orchestrator, and what it was asked."""

    def __init__(self, said: Callable[[str], None]) -> None:
        super().__init__()
        self.said = said
        self.faults: list[Exception] = []
        self.jobs = "SIGTERM to the jobs"

    def take_out(self, severity: Severity, reason: str) -> None:
        raise AssertionError(reason)

    def keep_new_work_away(self, reason: str) -> None:
        self.said(f"marked {reason}")
        if self.faults:
            raise self.faults[0]

    def end_work(self) -> str:
        self.said("work ended")
        if self.faults:
            raise self.faults[0]
        return self.jobs


class Node(WatchedNode):
    """A node that ends."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.log = folder / "log"
        self.fleet = Fleet(self.say)

    def say(self, words: str) -> None:
        with self.log.open("a") as log:
            log.write(f"{words}\n")

    @property
    def said(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def on_drain(self, script: str) -> None:
        self.write("etc/gpu-cluster/on-drain", f"#!/bin/sh\n{script}\n").chmod(0o755)

    def drain(self, why: Ending = SPOT, **settings: str) -> None:
        node = self.node(**{"job_seconds": "1", **settings})
        drain.drain(node, self.told, why, self.fleet)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    monkeypatch.setattr(drain, "_MARK_PAUSE_SECONDS", 0)
    return Node(tmp_path)


@pytest.fixture
def job(node: Node) -> Iterator[subprocess.Popen[bytes]]:
    """A job of `gpunode run`."""
    jobs.make_folder()
    child = subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    jobs.register(child.pid)
    yield child
    child.kill()
    child.communicate()


def test_node_is_marked_then_saved_then_its_work_ends(node: Node) -> None:
    node.on_drain(f'echo "saved $*" >>{node.log}')
    node.drain()
    assert node.said == [
        "marked spot-interruption 2026-12-01T12:02:00Z",
        "saved spot-interruption 2026-12-01T12:02:00Z",
        "work ended",
    ]
    assert [(event["stage"], event["state"]) for event in node.told.all] == [
        ("mark", "ok"),
        ("drain", "started"),
        ("drain", "ok"),
        ("jobs", "ok"),
    ]


def test_every_program_of_the_node_can_read_that_it_ends(node: Node) -> None:
    assert state.announced() == ""
    node.drain()
    assert state.announced() == "spot-interruption 2026-12-01T12:02:00Z"


def test_job_gets_sigterm_only_after_the_users_command(node: Node, job: subprocess.Popen[bytes]) -> None:
    node.on_drain(f"[ -d /proc/{job.pid} ] && read -r _ _ state _ </proc/{job.pid}/stat; echo $state >>{node.log}")
    node.drain()
    assert node.said[1] in ("S", "R")
    assert job.wait(60) == -15
    assert node.told.of("jobs") == [
        ("ok", "SIGTERM to the jobs"),
        ("ok", "1 of 1 jobs ended within 1 s of SIGTERM"),
    ]


def test_units_of_the_settings_are_stopped(node: Node) -> None:
    node.tool("systemctl", f'#!/bin/sh\necho "systemctl $*" >>{node.log}\n')
    node.drain(job_units="train.service eval.service")
    assert "systemctl stop train.service eval.service" in node.said
    assert ("ok", "train.service eval.service: stopped") in node.told.of("jobs")


@pytest.mark.parametrize(
    ("left", "deadline", "job_seconds", "seconds"),
    [
        (120, "90", "", 90),
        (60, "90", "", 40),
        (7, "90", "", 5),
        (120, "90", "60", 45),
        (None, "540", "", 540),
        (None, "540", "120", 435),
        (None, "20", "120", 5),
    ],
)
def test_command_has_the_time_that_the_end_and_the_jobs_leave(
    node: Node, left: float | None, deadline: str, job_seconds: str, seconds: float
) -> None:
    node.on_drain(f"echo $GPU_DRAIN_SECONDS >>{node.log}")
    node.fleet.jobs = ""
    node.drain(Ending("spot-interruption", seconds_left=left), drain_deadline=deadline, job_seconds=job_seconds)
    assert f"{seconds}" in node.said


def test_jobs_of_the_orchestrator_have_their_time(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    node.drain(job_seconds="30")
    assert 25 < slept[-1] <= 30
    node.fleet.jobs = ""
    slept.clear()
    node.drain(job_seconds="30")
    assert slept == []


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exec /bin/sleep 60", "on-drain was still running after 1 s"),
        ("exit 3", "on-drain exited with 3"),
        ("kill -9 $$", "on-drain exited with -9"),
    ],
    ids=["late", "failing", "killed"],
)
def test_command_that_does_not_work_holds_back_neither_the_jobs_nor_the_node(
    node: Node, script: str, reason: str
) -> None:
    node.on_drain(script)
    node.drain(drain_deadline="1")
    assert node.told.of("drain")[-1] == ("failed", reason)
    assert node.said[-1] == "work ended"


def test_command_that_is_stuck_in_the_kernel_does_not_hold_the_node(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_TERMINATE_SECONDS", 0.02)
    monkeypatch.setattr(command, "_KILL_SECONDS", 0.02)
    monkeypatch.setattr("os.killpg", lambda *_: None)
    node.on_drain("exec /bin/sleep 5")
    node.drain(drain_deadline="1")
    assert node.told.of("drain")[-1] == ("failed", "on-drain was still running after 1 s")
    assert node.said[-1] == "work ended"


def test_node_without_a_command_marks_it_and_ends_its_work(node: Node) -> None:
    node.drain()
    assert node.told.of("drain")[0][0] == "skipped"
    assert [words.split()[0] for words in node.said] == ["marked", "work"]


def test_orchestrator_that_fails_holds_back_nothing(node: Node, job: subprocess.Popen[bytes]) -> None:
    node.fleet.faults.append(OSError("no route"))
    node.on_drain(f"echo saved >>{node.log}")
    node.drain()
    assert "saved" in node.said
    assert ("failed", "no route") in node.told.of("jobs")
    assert job.wait(60) == -15


def test_orchestrator_that_hangs_does_not_take_the_time_of_the_command(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    monkeypatch.setattr(drain, "_MARK_SECONDS", 0.05)
    monkeypatch.setattr(node.fleet, "keep_new_work_away", lambda _: gate.wait())
    node.on_drain(f"echo saved >>{node.log}")
    node.drain()
    assert node.said == ["saved", "work ended"]
    gate.set()
    while not node.told.of("mark"):
        time.sleep(0.01)


def test_disk_that_takes_nothing_holds_back_nothing(node: Node) -> None:
    node.write("var/lib/gpu-cluster", "")
    node.write("run/gpu-cluster", "")
    node.on_drain(f"echo saved >>{node.log}")
    node.drain()
    assert node.said[1:] == ["saved", "work ended"]


class Enough(Exception):
    """Ends a loop that has no end."""


@pytest.fixture
def ends(node: Node, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the loop over what the metadata say in one poll after the other."""

    node.fleet.jobs = ""

    def run(*said: dict[str, str], **settings: str) -> int:
        found = list(said)
        mine = node.node(**settings)

        def get(path: str) -> str | None:
            return found[0].get(path)

        def wait(_: float) -> None:
            found.pop(0)
            if not found:
                raise Enough

        monkeypatch.setattr(mine.metadata, "get", get)
        monkeypatch.setattr("time.sleep", wait)
        return drain.watch_for_end(mine, node.told, orchestrator=node.fleet, report=lambda: node.say("told"))

    return run


NOTICE = {"spot/instance-action": '{"action": "terminate", "time": "2099-12-01T12:02:00Z"}'}
HINT = {"events/recommendations/rebalance": '{"noticeTime": "2026-12-01T12:00:00Z"}'}
TERMINATED = {"autoscaling/target-lifecycle-state": "Terminated"}


def test_spot_notice_drains_once_and_the_groups_termination_completes_the_hook(
    node: Node, ends: Callable[..., int]
) -> None:
    node.account.members[INSTANCE][0] = "Terminating:Wait"
    completed: list[Any] = []
    node.account.complete_lifecycle_action = lambda *given: completed.append(given)  # type: ignore[attr-defined]
    assert ends({}, NOTICE, NOTICE, {**NOTICE, **TERMINATED}, terminate_hook="drained") == 0
    assert node.said == ["marked spot-interruption 2099-12-01T12:02:00Z", "work ended", "told"]
    [given] = completed
    assert set(given) >= {"drained", GROUP, INSTANCE, "CONTINUE"}


def test_hook_is_completed_after_the_load_balancer_let_go_however_long_that_takes(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Auto Scaling deregisters first: until then the state is `Terminating`, and there is no action to complete."""
    clock, awaited = 0.0, "Terminating:Wait"
    completed: list[float] = []
    mine = node.node(terminate_hook="drained")

    def wait(seconds: float) -> None:
        nonlocal clock
        clock += seconds
        node.account.members[INSTANCE][0] = "InService" if clock < 5 else "Terminating" if clock < 3_000 else awaited

    def complete(*_: str) -> None:
        assert node.account.members[INSTANCE][0] == awaited, "ValidationError: no active lifecycle action"
        completed.append(clock)

    node.account.complete_lifecycle_action = complete  # type: ignore[attr-defined]
    node.account.denied["complete-lifecycle-action"] = 20
    node.fleet.jobs = ""
    monkeypatch.setattr("time.sleep", wait)
    monkeypatch.setattr(paths, "uptime_seconds", lambda: clock)
    monkeypatch.setattr(mine.metadata, "get", TERMINATED.get)
    assert drain.watch_for_end(mine, node.told, orchestrator=node.fleet, report=lambda: node.say("told")) == 0
    assert len(completed) == 1
    assert 3_000 <= completed[0] <= 3_000 + 21 * 30
    states = [state for state, _ in node.told.of("hook")]
    assert set(states[:-1]) == {"waiting", "failed"}
    assert states[-1] == "ok"
    assert node.said.count("told") == len(states)


def test_hint_is_told_once_and_drains_nothing(node: Node, ends: Callable[..., int]) -> None:
    with pytest.raises(Enough):
        ends({}, HINT, HINT, HINT)
    assert node.told.of("drain") == [("hint", "rebalance-recommendation 2026-12-01T12:00:00Z")]
    assert node.said == []


def test_hint_drains_where_the_settings_want_it(node: Node, ends: Callable[..., int]) -> None:
    with pytest.raises(Enough):
        ends(HINT, HINT, rebalance="drain")
    assert node.said[0] == "marked rebalance-recommendation 2026-12-01T12:00:00Z"
    assert node.said.count("work ended") == 1


def test_node_that_remembers_nothing_is_drained_once_all_the_same(node: Node, ends: Callable[..., int]) -> None:
    node.write("run/gpu-cluster", "")
    with pytest.raises(Enough):
        ends(NOTICE, NOTICE, NOTICE)
    assert node.said.count("work ended") == 1


def test_restarted_program_does_not_drain_a_second_time(node: Node, ends: Callable[..., int]) -> None:
    for _ in range(2):
        with pytest.raises(Enough):
            ends(NOTICE)
    assert node.said.count("work ended") == 1


def test_events_that_are_not_carried_do_not_hold_the_hook(
    node: Node, ends: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise OSError("no route")

    monkeypatch.setattr(node, "say", refuse)
    monkeypatch.setattr(node.fleet, "said", lambda _: None)
    assert ends(TERMINATED) == 0


def test_node_that_does_not_know_who_it_is_tries_again_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    monkeypatch.setenv("GPU_CLUSTER_IMDS", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert cli.main(["drain"]) == 75
    assert "does not return the id of this instance" in capsys.readouterr().err


def test_boot_of_a_node_that_ends_stops_at_its_stage(node: Node) -> None:
    from cdk_gpu_clusters.node.gpunode.boot.stage import Stage, State, Verdict, pass_stage

    looked: list[object] = []

    def look(_: object) -> Verdict:
        looked.append(1)
        state.announce("spot-interruption 2026-12-01T12:02:00Z")
        return Verdict.waiting("1 of 8 GPUs answer")

    found = pass_stage(Stage("driver", look), node.node(), Told(), until_uptime_seconds=10**9)
    assert found.state is State.FAILED
    assert found.reason == "this instance is about to end: spot-interruption 2026-12-01T12:02:00Z"
    assert len(looked) == 1
