"""Why a node ends, as its instance metadata and its settings say it.

Auto Scaling tells by `autoscaling/target-lifecycle-state` (EC2 Auto Scaling user guide, "Retrieve the target lifecycle
state through instance metadata"), Spot by `spot/instance-action`, two minutes ahead (AWS EC2 user guide, "Spot Instance
interruption notices"). The end of a Capacity Block reaches a node as a termination, once its group scales in; a fleet
that knows the end says it in the settings too, as the moment at which to drain.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ..node import Node

TERMINATION = "autoscaling-termination"
SPOT = "spot-interruption"
BLOCK_END = "capacity-block-end"
REBALANCE = "rebalance-recommendation"
# A time of day that somebody sets wrong, and right again, ends no node.
_CLOCK_SECONDS = 60


@dataclass(frozen=True)
class Ending:
    """Why this node ends.

    Attributes:
        reason: One of the words above, and the time where one is told.
        is_termination: Whether its group terminates it already, and waits for its hook.
        seconds_left: How long it still has; None where nothing says it.
    """

    reason: str
    is_termination: bool = False
    seconds_left: float | None = None


class Endings:
    """Looks whether a node ends."""

    def __init__(self, node: Node, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to look.

        Args:
            node: The node.
            clock: Seconds that never go back.
        """
        self._metadata, self._clock = node.metadata, clock
        self._drain_at = _moment(node.settings.text("drain_at"))
        self._due_since: float | None = None

    def look(self) -> Ending | None:
        """Why it ends; None while nothing says so, or nobody answers."""
        if self._metadata.get("autoscaling/target-lifecycle-state") == "Terminated":
            return Ending(TERMINATION, is_termination=True)
        notice = self._metadata.get("spot/instance-action")
        if notice:
            return _spot(notice)
        return Ending(BLOCK_END) if self._is_due() else None

    def hint(self) -> str:
        """A hint that a Spot instance is at risk; it may stay all the same."""
        notice = self._metadata.get("events/recommendations/rebalance")
        return f"{REBALANCE} {_text(notice, 'noticeTime')}".strip() if notice else ""

    def _is_due(self) -> bool:
        """Whether the moment to drain has passed, by a time of day that says so for a while."""
        if self._drain_at is None or time.time() < self._drain_at:
            self._due_since = None
            return False
        self._due_since = self._clock() if self._due_since is None else self._due_since
        return self._clock() - self._due_since >= _CLOCK_SECONDS


def _spot(notice: str) -> Ending:
    said = _text(notice, "time")
    end = _moment(said)
    left = None if end is None else end - time.time()
    # A notice that is over while the node still lives tells of a clock that is wrong.
    return Ending(f"{SPOT} {said}".strip(), seconds_left=left if left and left > 0 else None)


def _text(notice: str, name: str) -> str:
    try:
        found: Any = json.loads(notice)
        return str(found.get(name) or "")
    except (ValueError, AttributeError):
        return ""


def _moment(text: str) -> float | None:
    """A time such as 2026-12-15T10:50:00Z, in seconds since 1970; None for anything else."""
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
