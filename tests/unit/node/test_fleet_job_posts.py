"""How a node reads the board of a job from the log group, where a stream may be listed later than it was created."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.fleet_jobs import posts as module
from cdk_gpu_clusters.node.gpunode.fleet_jobs.posts import LoggedPosts
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings

JOB = "20261123-120000-a1b2"
PREFIX = f"jobs/{JOB}/"


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The streams that DescribeLogStreams shows now, and when each was created."""
    streams: dict[str, float] = {}

    def find(_node: Any, _group: str, prefix: str) -> dict[str, float]:
        return {name: created for name, created in streams.items() if name.startswith(prefix)}

    monkeypatch.setattr(module, "find_streams", find)
    return streams


def board_of(listed: dict[str, float]) -> LoggedPosts:
    node = Node(settings=Settings({"log_group": "g"}), metadata=Metadata(), instance_id="i-a", aws=Aws("us-east-1"))
    posts = LoggedPosts(node, JOB)
    listed[f"{PREFIX}attempt/0001/ready/-/i-a/10.0.0.1"] = 1.0
    assert posts.read().newest == 1
    return posts


def test_the_end_of_an_attempt_counts_if_it_is_listed_after_the_next_has_begun(listed: dict[str, float]) -> None:
    posts = board_of(listed)
    listed[f"{PREFIX}attempt/0002/ready/-/i-a/10.0.0.1"] = 3.0
    assert posts.read().newest == 2
    assert not posts.read().attempt(1).is_over()
    listed[f"{PREFIX}attempt/0001/exit-7/i-a/10.0.0.1"] = 2.0
    board = posts.read()
    assert board.attempt(1).status() == 7
    assert board.spent(2) == 1


def test_what_was_listed_once_stays_known(listed: dict[str, float]) -> None:
    posts = board_of(listed)
    listed.clear()
    assert posts.read().newest == 1
