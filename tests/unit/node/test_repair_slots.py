"""The slots that the nodes of a fleet take before they are repaired, and the silence of what counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.node import AwsError
from cdk_gpu_clusters.node.gpunode.repair.limit import Silence
from cdk_gpu_clusters.node.gpunode.slots import UNCOUNTED, Slots
from watched_node import Clock, WatchedNode

GROUP = {"log_group": "/gpu-cluster/trainers"}
REBOOT, REPLACE = "repairs/reboot", "repairs/replace"


class Logs:
    """What CloudWatch Logs has, and answers."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.streams: dict[str, float] = {"i-0123456789abcdef0": 0.0}
        self.refusal = ""
        self.answer: Any = None
        self.calls = 0

    def call(self, service: str, operation: str, *arguments: str, timeout_seconds: float = 60) -> Any:
        assert service == "logs"
        assert timeout_seconds <= 10
        assert arguments[:2] == ("--log-group-name", GROUP["log_group"])
        self.calls += 1
        if self.refusal:
            raise AwsError(self.refusal)
        if operation == "create-log-stream":
            if arguments[3] in self.streams:
                raise AwsError("An error occurred (ResourceAlreadyExistsException) when calling the CreateLogStream")
            self.streams[arguments[3]] = self.now
            return None
        assert operation == "describe-log-streams"
        assert arguments[2] == "--log-stream-name-prefix"
        assert arguments[4:7] == ("--order-by", "LogStreamName", "--descending")
        prefix, most = arguments[3], int(arguments[-1])
        names = sorted((name for name in self.streams if name.startswith(prefix)), reverse=True)[:most]
        rows = [{"logStreamName": name, "creationTime": int(self.streams[name] * 1000)} for name in names]
        return {"logStreams": rows} if self.answer is None else self.answer


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def fleet(tmp_path: Path, logs: Logs, monkeypatch: pytest.MonkeyPatch) -> WatchedNode:
    watched = WatchedNode(tmp_path)
    monkeypatch.setattr(watched.account, "call", logs.call)
    return watched


def slots(fleet: WatchedNode, logs: Logs) -> Slots:
    return Slots(fleet.node(**GROUP), clock=lambda: logs.now)


def test_as_many_nodes_as_the_limit_find_a_slot(fleet: WatchedNode, logs: Logs) -> None:
    taken = [slots(fleet, logs).take(REPLACE, 2) for _ in range(4)]
    assert taken == ["repairs/replace/000000001", "repairs/replace/000000002", "", ""]
    assert not slots(fleet, logs).has_room(REPLACE, 2)


def test_every_repair_has_slots_of_its_own(fleet: WatchedNode, logs: Logs) -> None:
    assert slots(fleet, logs).take(REPLACE, 1)
    assert slots(fleet, logs).take(REBOOT, 1)


def test_of_nodes_that_see_the_same_slots_one_gets_the_next(
    fleet: WatchedNode, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = slots(fleet, logs)
    monkeypatch.setattr(node, "_latest", lambda *_: {})
    assert [node.take(REPLACE, 5) for _ in range(3)] == ["repairs/replace/000000001", "", ""]


def test_the_count_slides_over_a_full_hour(fleet: WatchedNode, logs: Logs) -> None:
    """Two nodes at 9:59 and two at 10:01 would be four in two minutes."""
    logs.now = 1_800_000_000.0 // 3600 * 3600 - 60
    assert all(slots(fleet, logs).take(REPLACE, 2) for _ in range(2))
    logs.now += 120
    assert slots(fleet, logs).take(REPLACE, 2) == ""
    logs.now += 3600 - 120
    assert slots(fleet, logs).take(REPLACE, 2) == ""
    logs.now += 1
    assert slots(fleet, logs).take(REPLACE, 2) == "repairs/replace/000000003"


def test_a_fleet_without_a_log_group_counts_none(fleet: WatchedNode, logs: Logs) -> None:
    assert Slots(fleet.node()).take(REPLACE, 1) == UNCOUNTED
    assert Slots(fleet.node()).has_room(REPLACE, 1)
    assert logs.calls == 0


@pytest.mark.parametrize("answer", [7, [], {}, {"logStreams": 7}, {"logStreams": [7]}, {"logStreams": [{}]}])
def test_an_answer_that_is_none_gives_no_slot(fleet: WatchedNode, logs: Logs, answer: Any) -> None:
    logs.answer = answer
    with pytest.raises(AwsError, match="unexpected answer"):
        slots(fleet, logs).take(REPLACE, 2)


@pytest.mark.parametrize("refusal", ["Rate exceeded", "AccessDenied", "Could not connect to the endpoint URL"])
def test_logs_that_do_not_answer_give_no_slot(fleet: WatchedNode, logs: Logs, refusal: str) -> None:
    logs.refusal = refusal
    with pytest.raises(AwsError, match=refusal):
        slots(fleet, logs).take(REPLACE, 2)


SILENT = "Could not connect to the endpoint URL: https://logs.us-east-2.amazonaws.com/"


def silence(clock: Clock, chance: float = 0.0) -> Silence:
    return Silence(silence_seconds=3600, clock=clock, chance=lambda: chance)


def test_only_an_hour_without_any_answer_opens_the_limit() -> None:
    clock = Clock()
    heard = silence(clock)
    heard.failed(SILENT)
    clock.now += 3599
    heard.failed(SILENT)
    assert not heard.is_over(fleet_size=10, limit=2)
    clock.now += 1
    assert heard.is_over(fleet_size=10, limit=2)
    heard.answered()
    assert not heard.is_over(fleet_size=10, limit=2)


@pytest.mark.parametrize(
    "answer",
    [
        "An error occurred (ThrottlingException) when calling the DescribeLogStreams operation: Rate exceeded",
        "An error occurred (AccessDeniedException) when calling the CreateLogStream operation: not authorized",
        "An error occurred (ServiceUnavailable) when calling the DescribeAutoScalingInstances operation",
        "slurm_update error: Invalid user id",
        "Error from server (Forbidden): nodes is forbidden",
        "",
    ],
)
def test_a_throttled_or_refused_call_never_opens_the_limit(answer: str) -> None:
    clock = Clock()
    heard = silence(clock)
    for _ in range(100):
        heard.failed(SILENT)
        heard.failed(answer)
        assert not heard.is_over(fleet_size=10, limit=2)
        clock.now += 600


def test_the_nodes_of_a_silent_fleet_act_far_apart() -> None:
    clock = Clock()
    chances = [number / 1000 for number in range(1000)]
    heard = [silence(clock, chance) for chance in chances]
    for one in heard:
        one.failed(SILENT)
    clock.now += 3600
    opened = []
    for _ in range(24):
        opened.append(sum(one.is_over(fleet_size=1000, limit=10) for one in heard))
        clock.now += 3600
    assert max(opened[hour + 1] - opened[hour] for hour in range(23)) <= 6
