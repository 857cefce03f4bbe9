"""Runs a job on this node, attempt by attempt, in step with the other nodes of the fleet.

Every node runs this. It posts on the board what it has done, and decides by the board alone what comes next, so that
all nodes decide the same. An attempt ends for all when the ranks of one node have failed, or when a member is gone. The
next one begins when as many nodes are ready as the job takes, with the newest complete checkpoint.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from typing import IO, Protocol

from .board import STOPPED, Board, Member, attempt_prefix
from .ranks import Place, StartError
from .request import JobRequest

#: Status of a job whose ranks cannot be started, as of `docker run`, and of one whose program on a node has crashed.
CANNOT_START, CRASHED = 125, 70
# From one look at the board to the next; more in a large fleet, for the API's limit of 25 calls a second (CloudWatch
# Logs quotas, DescribeLogStreams).
_LOOK_SECONDS, _LOOK_SECONDS_PER_NODE = 4.0, 0.5
# From one look at the members to the next: Auto Scaling takes minutes to notice that an instance is gone.
_ALIVE_SECONDS = 30.0
_RANK_SECONDS = 0.5


class Posts(Protocol):
    """The board of one job in the fleet's log group."""

    def read(self) -> Board:
        """What is on it."""

    def post(self, name: str) -> bool:
        """Add what this node has to say, such as `attempt/0001/ready`; whether it was not there yet."""

    def is_stopped(self) -> bool:
        """Whether the user wants the job to end."""


class Runner(Protocol):
    """What starts and ends the ranks of this node."""

    def prepare(self, say: Callable[[str], None]) -> None: ...
    def start(self, place: Place) -> IO[bytes]: ...
    def status(self) -> int | None: ...
    def end(self, wait_seconds: float) -> None: ...


class Attempts:
    """Runs one job on this node.

    Args:
        request: The job.
        own: This node.
        posts: Its board.
        ranks: What starts the ranks.
        in_service: The instances of the fleet that are in service; empty if that is not known now.
        are_known: Whether EC2 knows all of some members now, in this fleet and with these addresses.
        place: Place of this node in EC2's network.
        copy: Passes on what the ranks print.
        say: Shows the user what happens.
        is_ending: Whether this node is about to end, and must not begin anything.
        cannot_start: Why the ranks can never be started on this node; empty otherwise.
        has_crashed: Whether this program ran the job before, since the node was started.
        clock: Seconds that only grow.
        sleep: Waits.
    """

    def __init__(
        self,
        request: JobRequest,
        own: Member,
        posts: Posts,
        ranks: Runner,
        *,
        in_service: Callable[[], Collection[str]],
        are_known: Callable[[list[Member]], bool],
        place: str,
        copy: Callable[[IO[bytes]], object],
        say: Callable[[str], None],
        is_ending: Callable[[], bool],
        cannot_start: str = "",
        has_crashed: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._request, self._own, self._posts, self._ranks = request, own, posts, ranks
        self._in_service, self._are_known, self._copy, self._place = in_service, are_known, copy, place
        self._cannot_start, self._has_crashed = cannot_start, has_crashed
        self._say, self._is_ending, self._clock, self._sleep = say, is_ending, clock, sleep
        self._gone: frozenset[str] = frozenset()
        self._asked_at = float("-inf")

    def run(self) -> str:
        """Run the job to its end.

        Returns:
            Its result: a status as text, or `stopped`.
        """
        number = max(1, self._posts.read().newest)
        while True:
            result = self._attempt(number)
            if result is not None:
                self._posts.post(f"result/{result}")
                self._say(f"the job has ended: {result}")
                return result
            number = max(number + 1, self._posts.read().newest)

    def _attempt(self, number: int) -> str | None:
        """Take part in an attempt; the result of the job, or None if another attempt is needed."""
        prefix = attempt_prefix(number)
        if self._posts.is_stopped():
            return STOPPED
        cannot_start = self._prepare()
        if self._posts.read().newest > number:
            return None
        if not self._is_ending() and not self._announce(prefix, number):
            return None
        while True:
            board = self._gather(number)
            decided = self._decided(board, number)
            if decided is not None or board.attempt(number).is_over() or board.newest > number:
                return decided
            members = board.attempt(number).ranks(self._request.nodes)
            # The board may be anyone's; addresses that ranks connect to come from EC2.
            if self._are_known(members):
                return self._take_part(number, Place(members, self._own, number), cannot_start)
            self._wait()

    def _announce(self, prefix: str, number: int) -> bool:
        """Post that this node is ready; False if its ranks ran in this attempt before, which then is over."""
        has_run = self._own in self._posts.read().attempt(number).ready
        if not has_run and self._posts.post(f"{prefix}ready/{self._place}"):
            return True
        # After a reboot the node was lost for a while. A crash of this program, such as for want of memory, counts.
        self._posts.post(f"{prefix}exit-{CRASHED}" if self._has_crashed else f"{prefix}lost")
        return False

    def _prepare(self) -> str:
        """Prepare the ranks; why they cannot be started, or an empty text."""
        if self._cannot_start:
            return self._cannot_start
        try:
            self._ranks.prepare(self._say)
        except StartError as reason:
            return str(reason)
        return ""

    def _start(self, place: Place, cannot_start: str) -> int | None:
        """Start the ranks; a status if that fails."""
        try:
            if cannot_start:
                raise StartError(cannot_start)
            self._copy(self._ranks.start(place))
        except StartError as reason:
            self._say(f"cannot start: {reason}")
            return CANNOT_START
        return None

    def _gather(self, number: int) -> Board:
        """Wait until this node is a member of a complete attempt, or the attempt is over."""
        last = ""
        while True:
            board = self._look(number)
            attempt = board.attempt(number)
            members = attempt.members(self._request.nodes)
            is_complete = len(members) == self._request.nodes
            over = board.newest > number or attempt.is_over() or self._decided(board, number) is not None
            if over or (is_complete and self._own in members):
                return board
            words = f"waiting for nodes: {len(members)} of {self._request.nodes} are ready"
            if is_complete:
                words = "the job has all the nodes that it takes: this node is a spare"
            if words != last:
                self._say(words)
            last = words
            self._wait()

    def _take_part(self, number: int, place: Place, cannot_start: str) -> str | None:
        """Run the ranks of this node until all members have ended; the result, or None for another attempt."""
        prefix = attempt_prefix(number)
        self._say(
            f"attempt {number}: rank {place.rank} of {len(place.members)} nodes, master {place.members[0].address}"
        )
        failed = self._start(place, cannot_start)
        has_ended = False
        while True:
            status = None
            if has_ended:
                self._wait()
            else:
                status = self._wait_for_ranks(failed)
            if status is not None:
                self._say(f"the ranks of this node ended with status {status}")
                # Launchers leave processes behind, which would hold the GPUs.
                self._ranks.end(self._request.grace_seconds)
                self._posts.post(f"{prefix}exit-{status}")
                has_ended = True
            board = self._look(number)
            if set(board.attempt(number).members(len(place.members))) != set(place.members):
                # A node was ready earlier than the board showed at the start: not all have the same members.
                self._posts.post(f"{prefix}lost")
                board = self._posts.read()
            decided = self._decided(board, number)
            if decided is not None or board.attempt(number).is_over() or board.newest > number:
                if not has_ended:
                    self._say("the ranks of this node are ended: " + _why(board, number, decided))
                    self._ranks.end(self._request.grace_seconds)
                return decided

    def _decided(self, board: Board, number: int) -> str | None:
        """The result of the job, if there is one."""
        if board.result:
            return board.result
        if board.attempt(number).has_succeeded(self._request.nodes):
            return "0"
        # Only when all nodes of the former attempt that are there have posted for this one: then it is known whether
        # a node was lost.
        is_complete = len(board.attempt(number).members(self._request.nodes)) == self._request.nodes
        if is_complete and board.spent(number) > self._request.max_restarts:
            return str(board.attempt(number - 1).status() or CANNOT_START)
        return None

    def _look(self, number: int) -> Board:
        """The board, after this node has added what it knows about the members."""
        board = self._posts.read()
        attempt = board.attempt(number)
        members = attempt.members(self._request.nodes)
        if self._clock() - self._asked_at >= _ALIVE_SECONDS and len(members) > 1:
            self._asked_at = self._clock()
            found = frozenset(self._in_service())
            gone = (
                frozenset(one.instance_id for one in members if one.instance_id not in found) if found else frozenset()
            )
            # Twice in a row: the answers of two moments may differ.
            lost, self._gone = gone & self._gone, gone
            unfinished = {one.instance_id for one in members if attempt.exits.get(one, (1, 0.0))[0] != 0}
            if lost & unfinished and not attempt.is_over():
                self._say(f"{', '.join(sorted(lost))} is gone")
                self._posts.post(f"{attempt_prefix(number)}lost")
                board = self._posts.read()
        return board

    def _wait_for_ranks(self, failed: int | None) -> int | None:
        """The status of the ranks, as soon as they end, or None at the time of the next look."""
        until = self._clock() + self._pause()
        status = failed
        while status is None and (status := self._ranks.status()) is None and self._clock() < until:
            self._sleep(_RANK_SECONDS)
        return status

    def _wait(self) -> None:
        self._sleep(self._pause())

    def _pause(self) -> float:
        # Random: nodes must not call at the same time.
        seconds = _LOOK_SECONDS + _LOOK_SECONDS_PER_NODE * self._request.nodes
        return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - no secret


def _why(board: Board, number: int, decided: str | None) -> str:
    if decided is not None:
        return f"the job has ended: {decided}"
    attempt = board.attempt(number)
    if attempt.lost:
        return "a node of this attempt is gone"
    if attempt.is_over():
        return f"the ranks of another node ended with status {attempt.status()}"
    return "other nodes have begun another attempt"
