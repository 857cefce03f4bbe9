"""How many nodes of a fleet may be repaired within an hour, and how long a node waits for its turn.

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

#: Limits of a fleet by severity: how many nodes may have that repair within an hour.
Limits = Mapping[Severity, int]
#: Slot of a node that acts although nothing has answered for long.
SILENT = "silence"


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
        """Begin again with short ones, after something succeeded."""
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
