"""The board of a job in the log group of this node's fleet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ..lifecycle import membership
from ..log_streams import create_stream, find_streams
from ..node import AwsError, Node
from .board import JOBS, Board, attempt_prefix, read_board
from .request import PARAMETER_TAG, JobRequest, read_files, read_request

_TIMEOUT_SECONDS = 20
_PATIENCE_SECONDS, _PAUSE_SECONDS = 900, 5
# Each start of the CLI takes most of a second of a processor. News takes three or four starts, of one page each. The
# whole board takes one start, and up to this many streams no more pages (CloudWatch Logs API reference,
# DescribeLogStreams: a page has at most 50 streams).
_LISTED_WHOLE = 150

Answer = TypeVar("Answer")


class LoggedPosts:
    """Reads and writes the board of one job.

    Args:
        node: This node.
        job_id: The job.
    """

    def __init__(self, node: Node, job_id: str) -> None:
        self._node = node
        self._group = node.settings.text("log_group")
        self.job_id: str = job_id
        self._streams: dict[str, float] = {}
        self._last: Board | None = None

    def read(self) -> Board:
        """What is on it; the last known state if AWS does not answer now.

        Raises:
            AwsError: If AWS has not answered yet.
        """
        prefix = f"{JOBS}/{self.job_id}/"
        try:
            if self._last is None or len(self._streams) <= _LISTED_WHOLE:
                self._streams |= find_streams(self._node, self._group, prefix)
            else:
                # A stream may be listed later than it was created (hashicorp/terraform-provider-aws, pull request
                # 11617): the end of an attempt after the next has begun.
                self._look_for_news(prefix, max(1, self._last.newest - 1))
            self._last = read_board(self.job_id, self._streams)
        except AwsError:
            if self._last is None:
                raise
        return self._last

    def _look_for_news(self, prefix: str, number: int) -> None:
        """Read what may have changed: attempts that are over only fill pages."""
        self._streams |= find_streams(self._node, self._group, f"{prefix}result/")
        found = find_streams(self._node, self._group, f"{prefix}{attempt_prefix(number)}")
        while found:
            self._streams |= found
            number += 1
            found = find_streams(self._node, self._group, f"{prefix}{attempt_prefix(number)}")

    def post(self, name: str) -> bool:
        """Add a stream that ends in the name of this node; whether it was not there yet.

        Raises:
            AwsError: If AWS refuses, or has not answered for a quarter of an hour.
        """
        stream = f"{JOBS}/{self.job_id}/{name}/{self._node.stream_name}"
        return _patiently(lambda: create_stream(self._node, self._group, stream))

    def is_stopped(self) -> bool:
        """Whether the user wants the job to end, or another one instead.

        A deployment that changes the parameter, such as its tags, empties it: that ends no job.
        """
        request = _patiently(lambda: current_request(self._node))
        return request is not None and (request.job_id != self.job_id or request.is_stopped)

    def files(self, request: JobRequest) -> bytes | None:
        """The files of the job; None while they are incomplete.

        Raises:
            RequestError: If they are not those of the request.
            AwsError: If AWS refuses or does not answer.
        """
        if not request.pieces:
            return b""
        stream = f"{JOBS}/{self.job_id}/files"
        where = ("--log-group-name", self._group, "--log-stream-name", stream, "--start-from-head")
        found: list[str] = []
        token = ""
        while True:
            more = ("--next-token", token) if token else ()
            answer = self._node.aws.call("logs", "get-log-events", *where, *more) or {}
            found += [str(one["message"]) for one in answer.get("events", [])]
            # GetLogEvents: at the end of the stream, the token that was given comes back.
            if token == answer.get("nextForwardToken", token):
                return read_files(request, found)
            token = str(answer["nextForwardToken"])


def _patiently(call: Callable[[], Answer]) -> Answer:
    """Call again while AWS does not answer: the ranks go on meanwhile."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return call()
        except AwsError:  # noqa: PERF203 - each call counts by itself
            if time.monotonic() >= until:
                raise
            time.sleep(_PAUSE_SECONDS)


def current_request(node: Node) -> JobRequest | None:
    """The newest job of the fleet; None before the first, and where users start none.

    A deployment that changes the parameter, such as its tags, empties it, too.

    Raises:
        RequestError: If it is damaged.
        AwsError: If AWS refuses or does not answer.
    """
    name = _parameter(node)
    if not name:
        return None
    answer = node.aws.call("ssm", "get-parameter", "--name", name, timeout_seconds=_TIMEOUT_SECONDS)
    try:
        return read_request(str(answer["Parameter"]["Value"]))
    except (KeyError, TypeError) as fault:
        raise AwsError(f"get-parameter: unexpected answer: {str(answer)[:200]}") from fault


def _parameter(node: Node) -> str:
    """Name of the fleet's parameter, from a tag of its group; empty for a fleet that runs no jobs of users."""
    group = membership(node).group
    if not group:  # the API is eventually consistent
        raise AwsError("this node is in no Auto Scaling group yet")
    query = f"AutoScalingGroups[0].Tags[?Key=='{PARAMETER_TAG}'].Value | [0]"
    where = ("--auto-scaling-group-names", group, "--query", query)
    return str(node.aws.call("autoscaling", "describe-auto-scaling-groups", *where) or "")
