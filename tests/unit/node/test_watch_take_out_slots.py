"""The places that nodes which fail in the same moment take before they act."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.node import AwsError
from cdk_gpu_clusters.node.gpunode.watch.response import TakeOutSlots
from watched_node import WatchedNode

GROUP = {"log_group": "/gpu-cluster/trainers"}


class Logs:
    """What CloudWatch Logs has, and answers."""

    def __init__(self) -> None:
        self.streams: list[str] = []
        self.refusal = ""

    def call(self, service: str, operation: str, *arguments: str, timeout_seconds: float = 60) -> Any:
        assert (service, operation) == ("logs", "create-log-stream")
        assert arguments[:3] == ("--log-group-name", GROUP["log_group"], "--log-stream-name")
        if self.refusal:
            raise AwsError(self.refusal)
        if arguments[3] in self.streams:
            raise AwsError("An error occurred (ResourceAlreadyExistsException) when calling the CreateLogStream")
        self.streams.append(arguments[3])


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def fleet(tmp_path: Path, logs: Logs, monkeypatch: pytest.MonkeyPatch) -> WatchedNode:
    watched = WatchedNode(tmp_path)
    monkeypatch.setattr(watched.account, "call", logs.call)
    monkeypatch.setattr(time, "gmtime", lambda: (2026, 11, 21, 9, 59, 0, 5, 325, 0))
    return watched


def test_of_nodes_that_ask_at_once_as_many_pass_as_there_are_places(fleet: WatchedNode, logs: Logs) -> None:
    nodes = [TakeOutSlots(fleet.node(**GROUP)) for _ in range(4)]
    assert [node.take(range(1, 3)) for node in nodes] == [True, True, False, False]
    assert logs.streams == ["taken-out/2026-11-21T09/1", "taken-out/2026-11-21T09/2"]


def test_places_of_nodes_that_are_known_to_be_gone_are_left_out(fleet: WatchedNode, logs: Logs) -> None:
    assert TakeOutSlots(fleet.node(**GROUP)).take(range(2, 3))
    assert logs.streams == ["taken-out/2026-11-21T09/2"]


def test_next_hour_has_places_of_its_own(fleet: WatchedNode, logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    node = TakeOutSlots(fleet.node(**GROUP))
    assert node.take([1])
    assert not node.take([1])
    monkeypatch.setattr(time, "gmtime", lambda: (2026, 11, 21, 10, 0, 0, 5, 325, 0))
    assert node.take([1])


def test_fleet_without_a_log_group_counts_none(fleet: WatchedNode, logs: Logs) -> None:
    assert all(TakeOutSlots(fleet.node()).take([1]) for _ in range(2))
    assert logs.streams == []


def test_logs_that_do_not_answer_hold_no_broken_node_in_service(
    fleet: WatchedNode, logs: Logs, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.refusal = "Could not connect to the endpoint URL"
    assert TakeOutSlots(fleet.node(**GROUP)).take([1])
    assert "slots are not counted: Could not connect" in capsys.readouterr().err
