"""How a node reads the board of a job from the log group, where a stream may be listed later than it was created."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.fleet_jobs import posts as module
from cdk_gpu_clusters.node.gpunode.fleet_jobs.posts import LoggedPosts
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings

JOB = "20261123-120000-a1b2"
PREFIX = f"jobs/{JOB}/"

# The streams of three pages of DescribeLogStreams.
PAGES = 150


class Listed(dict[str, float]):
    """The streams that DescribeLogStreams shows now, and when each was created.

    Attributes:
        asked: The prefixes that were asked for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Listed:
    """What the node finds."""
    streams = Listed()

    def find(_node: Any, _group: str, prefix: str) -> dict[str, float]:
        streams.asked.append(prefix.removeprefix(PREFIX))
        return {name: created for name, created in streams.items() if name.startswith(prefix)}

    monkeypatch.setattr(module, "find_streams", find)
    return streams


def board_of(listed: Listed) -> LoggedPosts:
    node = Node(settings=Settings({"log_group": "g"}), metadata=Metadata(), instance_id="i-a", aws=Aws("us-east-1"))
    posts = LoggedPosts(node, JOB)
    listed[f"{PREFIX}attempt/0001/ready/-/i-a/10.0.0.1"] = 1.0
    assert posts.read().newest == 1
    return posts


@pytest.fixture(params=[0, PAGES], ids=["a short board", "a long board"])
def posts(listed: Listed, request: pytest.FixtureRequest) -> LoggedPosts:
    """A board, and one that is too long to be listed whole each time."""
    listed.update({f"{PREFIX}log/i-{number:x}/10.0.0.1": 0.0 for number in range(request.param)})
    return board_of(listed)


def test_the_end_of_an_attempt_counts_if_it_is_listed_after_the_next_has_begun(
    listed: Listed, posts: LoggedPosts
) -> None:
    listed[f"{PREFIX}attempt/0002/ready/-/i-a/10.0.0.1"] = 3.0
    assert posts.read().newest == 2
    assert not posts.read().attempt(1).is_over()
    listed[f"{PREFIX}attempt/0001/exit-7/i-a/10.0.0.1"] = 2.0
    board = posts.read()
    assert board.attempt(1).status() == 7
    assert board.spent(2) == 1


def test_what_was_listed_once_stays_known(listed: Listed, posts: LoggedPosts) -> None:
    listed.clear()
    assert posts.read().newest == 1


def test_the_result_is_seen(listed: Listed, posts: LoggedPosts) -> None:
    listed[f"{PREFIX}result/0/i-b/10.0.0.2"] = 2.0
    assert posts.read().result == "0"


def test_a_board_of_a_few_pages_takes_one_call(listed: Listed) -> None:
    posts = board_of(listed)
    listed.update({f"{PREFIX}log/i-{number:x}/10.0.0.1": 0.0 for number in range(PAGES - 1)})
    listed.asked.clear()
    posts.read()
    posts.read()
    assert listed.asked == ["", ""]


def test_a_longer_board_is_read_in_parts_that_are_short(listed: Listed) -> None:
    posts = board_of(listed)
    listed.update({f"{PREFIX}log/i-{number:x}/10.0.0.1": 0.0 for number in range(PAGES)})
    posts.read()
    listed.asked.clear()
    posts.read()
    assert listed.asked == ["result/", "attempt/0001/", "attempt/0002/"]
