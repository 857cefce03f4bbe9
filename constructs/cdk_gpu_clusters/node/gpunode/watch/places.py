"""Places for nodes that are taken out within an hour: each can be taken once in a fleet.

Nodes that fail in the same moment ask the orchestrator in the same moment, and all hear that nobody is gone yet. So a
node takes a place before it acts: a log stream of the fleet's log group, without any records. Of all who make the same
stream only the first one can (CloudWatch Logs API reference, CreateLogStream: ResourceAlreadyExistsException).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from ..aws import AwsError
from ..node import Node

_TIMEOUT_SECONDS = 10


class Places:
    """The places of a node's fleet.

    A fleet without a log group has none, and nodes of it that fail in the same moment may all be taken out. So they may
    while CloudWatch Logs does not answer: a broken node must not stay in service for that. Nodes that fail on either
    side of a full hour have places of either hour.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._group = node.settings.text("log_group")

    def take(self, numbers: Iterable[int]) -> bool:
        """Take the first one that is free in this hour.

        Args:
            numbers: Which ones there are.

        Returns:
            Whether this node may act.
        """
        if not self._group:
            return True
        hour = time.strftime("%Y-%m-%dT%H", time.gmtime())
        return any(self._make(f"taken-out/{hour}/{number}") for number in numbers)

    def _make(self, stream: str) -> bool:
        where = ("--log-group-name", self._group, "--log-stream-name", stream)
        try:
            self._node.aws.call("logs", "create-log-stream", *where, timeout_seconds=_TIMEOUT_SECONDS)
        except AwsError as fault:
            if "ResourceAlreadyExists" in str(fault):
                return False
            sys.stderr.write(f"places are not counted: {fault}\n")
        return True
