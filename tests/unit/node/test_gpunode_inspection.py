"""A node that failed its boot stays for people once launches are suspended, and goes when they are resumed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import paths
from cdk_gpu_clusters.node.gpunode.boot.boot import boot
from cdk_gpu_clusters.node.gpunode.boot.stage import Stage, Verdict
from cdk_gpu_clusters.node.gpunode.events import Events
from cdk_gpu_clusters.node.gpunode.node import Aws, AwsError, Metadata, Node, Settings

INSTANCE = "i-0123456789abcdef0"
BAD = Stage("driver", lambda _: Verdict.failed("no GPU answers"))
GOOD = Stage("driver", lambda _: Verdict.ok("8 GPUs"))


class Group(Aws):
    """The group of the node, and the time, which passes while the node sleeps.

    Attributes:
        suspended_until: When somebody resumes launches.
        denied: How many more calls fail.
    """

    def __init__(self, suspended_until: float) -> None:
        super().__init__("us-east-2")
        self.now, self.suspended_until, self.denied = 400.0, suspended_until, 0
        self.state = "Pending:Wait"
        self.made: list[tuple[float, str]] = []
        self.results: list[str] = []

    def call(self, service: str, operation: str, *arguments: str, timeout_seconds: float = 60) -> Any:
        self.made.append((self.now, operation))
        if self.denied:
            self.denied -= 1
            raise AwsError("An error occurred (AccessDenied): not yet")
        if operation == "complete-lifecycle-action":
            self.results.append(arguments[-1])
        row = {"AutoScalingGroupName": "trainers", "LifecycleState": self.state}
        processes = [{"ProcessName": "Launch"}] if self.now < self.suspended_until else []
        group = {"SuspendedProcesses": [{"ProcessName": "AZRebalance"}, *processes]}
        answers = {
            "describe-auto-scaling-instances": {"AutoScalingInstances": [row]},
            "describe-auto-scaling-groups": {"AutoScalingGroups": [group]},
        }
        return answers.get(operation)

    def heartbeats(self) -> list[float]:
        return [moment for moment, operation in self.made if operation == "record-lifecycle-action-heartbeat"]


class Booted:
    """A node that boots in a folder."""

    def __init__(self, suspended_until: float, **settings: str) -> None:
        self.group = Group(suspended_until)
        values = {"launch_hook": "node-ready", "boot_deadline": "1500", "inspection": "7200", **settings}
        self.node = Node(Settings(values), Metadata(), INSTANCE, self.group)
        self.events = Events(INSTANCE)
        self.told: list[int] = []

    def boot(self, stage: Stage = BAD) -> int:
        return boot(
            self.node, self.events, lambda _: [stage],
            report=lambda: self.told.append(len(self.events.written)), collect=lambda _: None,
        )  # fmt: skip

    def inspections(self) -> list[str]:
        return [event["state"] for event in self.events.written if event["stage"] == "inspection"]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    (tmp_path / "dev").mkdir()

    def made(suspended_until: float, **settings: str) -> Booted:
        node = Booted(suspended_until, **settings)

        def sleep(seconds: float) -> None:
            node.group.now += seconds

        monkeypatch.setattr(time, "sleep", sleep)
        monkeypatch.setattr(paths, "uptime_seconds", lambda: node.group.now)
        return node

    return made


def test_a_node_goes_at_once_while_launches_go_on(make: Any) -> None:
    node = make(0)
    assert node.boot() == 1
    assert node.group.heartbeats() == []
    assert node.group.results == ["ABANDON"]
    assert node.inspections() == []


def test_a_node_is_kept_with_the_way_to_it_told_to_aws(make: Any) -> None:
    node = make(10**9)
    node.boot()
    assert node.inspections() == ["started", "ok"]
    [started] = [
        event for event in node.events.written if event["state"] == "started" and event["stage"] == "inspection"
    ]
    assert f"aws ssm start-session --region us-east-2 --target {INSTANCE}" in started["reason"]
    assert "120 minutes" in started["reason"]
    assert node.told[1] > node.events.written.index(started)
    beats = node.group.heartbeats()
    assert 7_000 < beats[-1] - beats[0] < 7_200
    assert max(later - beat for beat, later in zip(beats, beats[1:])) <= 60  # noqa: B905, RUF007 - Python 3.9
    assert node.group.results == ["ABANDON"]


def test_a_node_goes_when_launches_are_resumed(make: Any) -> None:
    node = make(1_000)
    node.boot()
    assert node.group.heartbeats()[-1] < 1_000
    assert node.group.results == ["ABANDON"]
    assert node.group.now < 1_200


def test_heartbeats_come_before_a_short_time_out(make: Any) -> None:
    node = make(10**9, boot_deadline="15", inspection="100")
    node.boot()
    beats = node.group.heartbeats()
    assert max(later - beat for beat, later in zip(beats, beats[1:])) < 15  # noqa: B905, RUF007 - Python 3.9


@pytest.mark.parametrize(("denied", "states"), [(2, ["started", "ok"]), (3, ["failed"])])
def test_some_errors_of_the_api_are_waited_out(make: Any, denied: int, states: list[str]) -> None:
    node = make(10**9)
    node.group.denied = denied
    node.boot()
    assert node.inspections() == states
    assert node.group.results == ["ABANDON"]


@pytest.mark.parametrize("settings", [{"inspection": "0"}, {"inspection": ""}, {"launch_hook": ""}])
def test_nothing_is_kept_where_it_is_off(make: Any, settings: dict[str, str]) -> None:
    node = make(10**9, **settings)
    node.boot()
    assert node.group.heartbeats() == []


def test_a_node_that_is_ready_is_not_kept(make: Any) -> None:
    node = make(10**9)
    assert node.boot(GOOD) == 0
    assert node.group.heartbeats() == []
    assert node.group.results == ["CONTINUE"]


def test_a_node_in_service_that_fails_after_a_reboot_is_not_kept(make: Any) -> None:
    node = make(0)
    node.boot()
    again = make(10**9)
    again.boot()
    assert again.group.heartbeats() == []


def test_a_node_that_leaves_already_is_not_kept(make: Any) -> None:
    node = make(10**9)
    node.group.state = "Terminating:Wait"
    node.boot()
    assert node.group.heartbeats() == []
