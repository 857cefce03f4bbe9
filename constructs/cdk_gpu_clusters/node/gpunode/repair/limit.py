"""How many nodes of a fleet may be repaired within an hour, counted by all of its nodes without a coordinator.

Each repair takes a slot: an empty log stream in the fleet's log group, with the next number. Only one node can create a
stream (CloudWatch Logs API reference, CreateLogStream: ResourceAlreadyExistsException), and AWS records when it did
(DescribeLogStreams: `creationTime`). So the count slides, and does not begin anew at a full hour.

An answer that is throttled, slow, denied or missing never means that a node may act: exactly in a mass event all nodes
ask at once. The nodes wait, for random times that grow.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping

from ..actions.orchestrator import HOUR_SECONDS
from ..checks.check import Severity
from ..lifecycle import take_slot
from ..node import AwsError, Node

_TIMEOUT_SECONDS = 10
_DIGITS = 9
#: Limits of a fleet by severity: how many nodes may have that repair within an hour.
Limits = Mapping[Severity, int]
#: Slot of a node whose fleet counts none.
UNCOUNTED = "uncounted"
#: Slot of a node that acts although nothing has answered for long.
SILENT = "silence"


class Slots:
    """The slots of a node's fleet. A fleet without a log group counts none."""

    def __init__(self, node: Node, clock: Callable[[], float] = time.time) -> None:
        """Prepare them.

        Args:
            clock: Seconds since 1970.
        """
        self._node, self._clock = node, clock
        self._group = node.settings.text("log_group")

    def has_room(self, rung: Severity, limit: int) -> bool:
        """Whether fewer than the limit were taken within the last hour, by a single call.

        Raises:
            AwsError: If AWS refuses or does not answer.
        """
        return not self._group or self._has_room(self._latest(rung, limit), limit)

    def take(self, rung: Severity, limit: int) -> str:
        """Take the next slot, unless as many as the limit were taken within the last hour.

        Of several nodes that see the same slots, one gets the next.

        Returns:
            The slot; empty if there is none for this node now.

        Raises:
            AwsError: If AWS refuses or does not answer.
        """
        if not self._group:
            return UNCOUNTED
        found = self._latest(rung, limit)
        if not self._has_room(found, limit):
            return ""
        slot = f"{_prefix(rung)}{max(found, default=0) + 1:0{_DIGITS}}"
        return slot if take_slot(self._node, slot) else ""

    def _has_room(self, found: Mapping[int, float], limit: int) -> bool:
        since = (self._clock() - HOUR_SECONDS) * 1000
        return sum(created >= since for created in found.values()) < limit

    def _latest(self, rung: Severity, limit: int) -> dict[int, float]:
        """The last slots: number -> when it was taken, in milliseconds since 1970."""
        prefix = _prefix(rung)
        order = ("--order-by", "LogStreamName", "--descending", "--max-items", str(limit))
        where = ("--log-group-name", self._group, "--log-stream-name-prefix", prefix)
        answer = self._node.aws.call("logs", "describe-log-streams", *where, *order, timeout_seconds=_TIMEOUT_SECONDS)
        try:
            rows = {
                str(row["logStreamName"])[len(prefix) :]: float(row["creationTime"]) for row in answer["logStreams"]
            }
        except (KeyError, TypeError, ValueError) as fault:
            raise AwsError(f"describe-log-streams: unexpected answer: {str(answer)[:200]}") from fault
        return {int(number): created for number, created in rows.items() if number.isdecimal()}


def _prefix(rung: Severity) -> str:
    return f"repairs/{rung.name.lower()}/"


# Random times of which the longest triples up to ten minutes ("full jitter": AWS Architecture Blog, "Exponential
# Backoff And Jitter"): 1,000 nodes then ask about 200 times a minute.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, _GROWTH = 10.0, 600.0, 3.0


class Pauses:
    """Random pauses that grow with every try."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        """Begin with short ones.

        Args:
            chance: A random number of 0 to 1.
        """
        self._chance, self._longest = chance, _FIRST_PAUSE_SECONDS

    def next_seconds(self) -> float:
        """The next pause."""
        pause = self._chance() * self._longest
        self._longest = min(self._longest * _GROWTH, _LONGEST_PAUSE_SECONDS)
        return pause

    def restart(self) -> None:
        """Begin anew with short ones, after something succeeded."""
        self._longest = _FIRST_PAUSE_SECONDS


#: A control plane that does not answer at all for longer is taken as gone. Throttling and deployments last minutes.
SILENCE_SECONDS = 3600
# A fleet of unknown size.
_LARGE_FLEET = 1_000
# Words of programs that got no answer. Everything else, an error of the service too, is an answer.
_NO_ANSWER = re.compile(
    r"could not connect|connection (refused|reset|timed out)|connect timeout|read timeout|timed out|did not end within"
    r"|unable to contact|no route to host|network is unreachable|name resolution|name or service not known"
    r"|unable to locate credentials|connection was closed|^not found: aws",
    re.IGNORECASE,
)


class Silence:
    """How long nothing of the control plane has answered, and when this node may act in spite of that.

    Throttling and refusals are answers: they never open the limit. After a long silence every node acts at a random
    moment. The moments of a fleet lie so far apart that on average half of its limit acts.
    """

    def __init__(
        self,
        *,
        silence_seconds: float = SILENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Begin to listen.

        Args:
            silence_seconds: How long nothing may answer before it counts as gone.
            clock: Monotonic seconds.
            chance: A random number of 0 to 1.
        """
        self._silence, self._clock, self._chance = silence_seconds, clock, chance
        self._since: float | None = None
        self._draw = 0.0

    def answered(self) -> None:
        """Record an answer."""
        self._since = None

    def failed(self, words: str) -> None:
        """Record a failed call, which is an answer, too, unless its words show that nothing answered."""
        if not _NO_ANSWER.search(words):
            self._since = None
        elif self._since is None:
            self._since, self._draw = self._clock(), self._chance()

    def is_over(self, *, fleet_size: int, limit: int) -> bool:
        """Whether this node may act without an answer.

        Args:
            fleet_size: Nodes of the fleet when it last answered; 0 if that is unknown.
            limit: Repairs that the fleet may have within an hour.
        """
        if self._since is None or limit <= 0:
            return False
        spread = 2 * (fleet_size or _LARGE_FLEET) / limit * HOUR_SECONDS
        return self._clock() - self._since >= self._silence + self._draw * spread
