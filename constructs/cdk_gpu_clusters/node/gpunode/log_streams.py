"""The log streams of this node's fleet, by their names: what nodes agree by.

A stream can be created once, and AWS records when (CloudWatch Logs API reference, CreateLogStream and
DescribeLogStreams).
"""

from __future__ import annotations

from .node import AwsError, Node

_TIMEOUT_SECONDS = 10


def create_stream(node: Node, group: str, name: str) -> bool:
    """Create a stream; whether it did not exist.

    Args:
        group: Log group.
        name: Name of the stream.

    Raises:
        AwsError: If AWS refuses or does not answer.
    """
    where = ("--log-group-name", group, "--log-stream-name", name)
    try:
        node.aws.call("logs", "create-log-stream", *where, timeout_seconds=_TIMEOUT_SECONDS)
    except AwsError as fault:
        if "ResourceAlreadyExists" in str(fault):
            return False
        raise
    return True


def find_streams(node: Node, group: str, prefix: str, *, newest: int = 0) -> dict[str, float]:
    """The streams whose names begin with a prefix, and when each was created, in milliseconds since 1970.

    Args:
        group: Log group.
        prefix: First part of their names.
        newest: Return at most so many, those whose names come last; all if 0.

    Raises:
        AwsError: If AWS refuses or does not answer.
    """
    where = ("--log-group-name", group, "--log-stream-name-prefix", prefix)
    order = ("--order-by", "LogStreamName", "--descending", "--max-items", str(newest)) if newest else ()
    answer = node.aws.call("logs", "describe-log-streams", *where, *order, timeout_seconds=_TIMEOUT_SECONDS)
    try:
        return {str(one["logStreamName"]): float(one["creationTime"]) for one in answer["logStreams"]}
    except (KeyError, TypeError, ValueError) as fault:
        raise AwsError(f"describe-log-streams: unexpected answer: {str(answer)[:200]}") from fault
