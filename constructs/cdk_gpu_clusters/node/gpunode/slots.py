"""Slots: how often something may happen in a fleet within an hour, counted by all of its nodes without a coordinator.

A slot is an empty log stream in the fleet's log group, with the next number. Only one node can create a stream, and AWS
records when it did (`log_streams`). So the count slides, and does not begin again at a full hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from .log_streams import create_stream, find_streams
from .node import Node

_HOUR_SECONDS = 3600
_DIGITS = 9
#: Slot of a node whose fleet counts none.
UNCOUNTED = "uncounted"


class Slots:
    """The slots of a node's fleet. A fleet without a log group counts none."""

    def __init__(self, node: Node, clock: Callable[[], float] = time.time) -> None:
        """Prepare them.

        Args:
            clock: Seconds since 1970.
        """
        self._node, self._clock = node, clock
        self._group = node.settings.text("log_group")

    def has_room(self, kind: str, limit: int) -> bool:
        """Whether fewer than the limit were taken within the last hour, by a single call.

        Args:
            kind: What is counted, such as `repairs/reset`: the beginning of the names of its streams.

        Raises:
            AwsError: If AWS refuses or does not answer.
        """
        return not self._group or self._has_room(self._latest(kind, limit), limit)

    def take(self, kind: str, limit: int) -> str:
        """Take the next slot, unless as many as the limit were taken within the last hour.

        Of several nodes that see the same slots, one gets the next.

        Returns:
            The slot; empty if there is none for this node now.

        Raises:
            AwsError: If AWS refuses or does not answer.
        """
        if not self._group:
            return UNCOUNTED
        found = self._latest(kind, limit)
        if not self._has_room(found, limit):
            return ""
        slot = f"{kind}/{max(found, default=0) + 1:0{_DIGITS}}"
        return slot if create_stream(self._node, self._group, slot) else ""

    def _has_room(self, found: Mapping[int, float], limit: int) -> bool:
        since = (self._clock() - _HOUR_SECONDS) * 1000
        return sum(created >= since for created in found.values()) < limit

    def _latest(self, kind: str, limit: int) -> dict[int, float]:
        """The last slots: number -> when it was taken, in milliseconds since 1970."""
        prefix = f"{kind}/"
        found = find_streams(self._node, self._group, prefix, newest=limit)
        numbers = {name[len(prefix) :]: created for name, created in found.items()}
        return {int(number): created for number, created in numbers.items() if number.isdecimal()}
