"""Why a node ends: what its metadata and its settings say, and what they do not."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.drain import Ending, Endings
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from watched_node import Clock

NOON = 1_796_126_400.0  # 2026-12-01T12:00:00Z
POLLS_OF_A_MINUTE = 13


class Service(Metadata):
    """Instance metadata with some values."""

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self.values = {path.replace("__", "/").replace("_", "-"): text for path, text in values.items()}

    def get(self, path: str) -> str | None:
        return self.values.get(path)


def endings(service: Metadata | None = None, clock: Clock | None = None, **settings: str) -> Endings:
    node = Node(Settings(settings), service or Service(), "i-1", Aws("us-east-2"))
    return Endings(node, clock or Clock())


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of day."""
    clock = Clock()
    clock.now = NOON
    monkeypatch.setattr(time, "time", clock)
    return clock


def test_node_that_is_wanted_does_not_end() -> None:
    assert endings(Service(autoscaling__target_lifecycle_state="InService")).find() is None


def test_metadata_service_that_is_down_ends_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_CLUSTER_IMDS", "http://127.0.0.1:9")
    found = endings(Metadata())
    assert (found.find(), found.hint()) == (None, "")


def test_group_that_terminates_the_node_says_so() -> None:
    found = endings(Service(autoscaling__target_lifecycle_state="Terminated")).find()
    assert found == Ending("autoscaling-termination", is_termination=True)


def test_spot_notice_tells_when(now: Clock) -> None:
    notice = json.dumps({"action": "terminate", "time": "2026-12-01T12:02:00Z"})
    found = endings(Service(spot__instance_action=notice)).find()
    assert found == Ending("spot-interruption 2026-12-01T12:02:00Z", seconds_left=120)


@pytest.mark.parametrize("wrong_by", [-(10**9), 3600])
def test_clock_that_is_wrong_takes_no_time_from_a_spot_notice(now: Clock, wrong_by: int) -> None:
    now.now += wrong_by
    notice = json.dumps({"action": "terminate", "time": "2026-12-01T12:02:00Z"})
    found = endings(Service(spot__instance_action=notice)).find()
    assert found is not None
    assert found.seconds_left is None or found.seconds_left > 120


@pytest.mark.parametrize("notice", ["soon", "[]", "7", '{"action": "terminate"}', '{"time": "soon"}'])
def test_spot_notice_that_nobody_can_read_is_a_notice_all_the_same(notice: str) -> None:
    found = endings(Service(spot__instance_action=notice)).find()
    assert found is not None
    assert found.reason.startswith("spot-interruption")
    assert found.seconds_left is None


def test_rebalance_recommendation_is_a_hint_and_no_end() -> None:
    notice = json.dumps({"noticeTime": "2026-12-01T12:00:00Z"})
    found = endings(Service(events__recommendations__rebalance=notice))
    assert found.hint() == "rebalance-recommendation 2026-12-01T12:00:00Z"
    assert found.find() is None


def test_capacity_block_drains_when_its_settings_say(now: Clock) -> None:
    clock = Clock()
    found = endings(clock=clock, drain_at="2026-12-01T12:10:00Z")
    seen = []
    for _ in range(POLLS_OF_A_MINUTE):
        seen.append(found.find())
        clock.now += 5
    assert set(seen) == {None}
    now.now += 600
    for _ in range(POLLS_OF_A_MINUTE):
        seen.append(found.find())
        clock.now += 5
    assert seen[-1] == Ending("capacity-block-end")


def test_clock_that_jumps_for_moments_ends_no_capacity_block(now: Clock) -> None:
    clock = Clock()
    found = endings(clock=clock, drain_at="2026-12-01T12:10:00Z")
    for jump in (0, 10**7, 0, 10**8, -(10**8)):
        now.now = NOON + jump
        for _ in range(POLLS_OF_A_MINUTE - 1):
            assert found.find() is None
            clock.now += 5


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01T00:00:00Z", "1796126400"])
def test_moment_that_is_none_drains_nothing(now: Clock, text: str) -> None:
    clock = Clock()
    found = endings(clock=clock, drain_at=text)
    now.now += 10**9
    for _ in range(POLLS_OF_A_MINUTE):
        assert found.find() is None
        clock.now += 5
