"""The board of a job: what its nodes tell each other, as names of log streams in the fleet's log group.

No node leads, none listens on a port, and nothing is lost with a node. A stream can be created once, and AWS records
when (CloudWatch Logs API reference, CreateLogStream and DescribeLogStreams).

| Stream below `jobs/JOB/` | Created by | Meaning |
| --- | --- | --- |
| `files` | the user | its events hold the files of the job |
| `log/INSTANCE/ADDRESS` | a node | the output of its ranks |
| `attempt/0001/ready/PLACE/INSTANCE/ADDRESS` | a node | it is ready to start its ranks; its place in EC2's network |
| `attempt/0001/exit-1/INSTANCE/ADDRESS` | a node | its ranks have ended, with this status |
| `attempt/0001/lost/INSTANCE/ADDRESS` | a node | a member of this attempt is gone, and its ranks will not come back |
| `result/1/INSTANCE/ADDRESS` | a node | the job has ended, with this status |

The nodes that were ready first are the members of an attempt, as many as the job takes. The order of two nodes that
were ready in the same millisecond is that of their names. Ranks are in the order of the places, which each node states
once: a place is the network nodes above it, with dots between, or `-` if EC2 does not report them. So all nodes that
see the same board agree on the members and on their ranks.

The board decides when ranks start and end, and nothing else. Many roles of an account may write to all of its log
groups, so nothing here is trusted: what runs, and whether it is to end, is in the request (`request`), and the
addresses of members come from EC2.

This module only reads and writes names. The command `gpu-clusters jobs` reads the same board from outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: What a job is called: when it was requested, in UTC, and four random characters. So the newest is the last by name.
JOB_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[a-z0-9]{4}")
#: First part of the names of all streams of jobs.
JOBS = "jobs"
#: Place of a node whose network EC2 does not report.
UNKNOWN = "-"
#: Result of a job that a user has stopped.
STOPPED = "stopped"
_ADDRESS = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
_OF_NODE = rf"(?P<instance>i-[0-9a-f]+)/(?P<address>{_ADDRESS})"
_FLAG = re.compile(
    rf"attempt/(?P<attempt>[0-9]{{4}})/"
    rf"(?P<state>ready/(?P<place>[a-z0-9.-]{{1,200}})|lost|exit-(?P<status>[0-9]{{1,3}}))/{_OF_NODE}"
)
_RESULT = re.compile(rf"result/(?P<result>[0-9]{{1,3}}|{STOPPED})/{_OF_NODE}")
_LOG = re.compile(rf"log/{_OF_NODE}")


class Member(NamedTuple):
    """A node, as the board names it."""

    instance_id: str
    address: str


@dataclass
class Attempt:
    """One attempt to run a job.

    Attributes:
        ready: When each node was ready, in milliseconds since 1970.
        places: Its place in EC2's network; `-` if it is unknown.
        exits: Status with which the ranks of a node ended, and when.
        lost: Nodes that have seen that a member is gone.
    """

    ready: dict[Member, float] = field(default_factory=dict)
    places: dict[Member, str] = field(default_factory=dict)
    exits: dict[Member, tuple[int, float]] = field(default_factory=dict)
    lost: set[Member] = field(default_factory=set)

    def members(self, count: int) -> list[Member]:
        """The nodes that run it, by the time at which they were ready; fewer than the count while it gathers."""
        return sorted(self.ready, key=lambda one: (self.ready[one], one))[:count]

    def ranks(self, count: int) -> list[Member]:
        """The members in the order of their ranks: near ones next to each other if all places are known."""
        members = sorted(self.members(count), key=lambda one: [int(part) for part in one.address.split(".")])
        if any(self.places.get(one, UNKNOWN) == UNKNOWN for one in members):
            return members
        return sorted(members, key=lambda one: self.places[one])

    def is_over(self) -> bool:
        """Whether its ranks have to end: some have failed, or a member is gone."""
        return bool(self.lost) or any(status for status, _ in self.exits.values())

    def has_succeeded(self, count: int) -> bool:
        """Whether the ranks of all members have ended with status 0."""
        members = self.members(count)
        return len(members) == count and all(self.exits.get(one, (1, 0))[0] == 0 for one in members)

    def status(self) -> int:
        """The status of the ranks that failed first; 0 if none did."""
        failed = sorted((when, status) for status, when in self.exits.values() if status)
        return failed[0][1] if failed else 0


@dataclass
class Board:
    """What is known of a job.

    Attributes:
        results: What nodes reported of its end: statuses, or `stopped`.
        logs: Nodes that have sent output.
        attempts: By number, from 1.
    """

    results: dict[Member, str] = field(default_factory=dict)
    logs: set[Member] = field(default_factory=set)
    attempts: dict[int, Attempt] = field(default_factory=dict)

    @property
    def newest(self) -> int:
        """Number of the newest attempt; 0 before the first. A number without those before it is a forgery."""
        number = 0
        while number + 1 in self.attempts:
            number += 1
        return number

    def attempt(self, number: int) -> Attempt:
        """One attempt, empty before any node was ready for it."""
        return self.attempts.get(number, Attempt())

    @property
    def result(self) -> str:
        """The result; empty while the job runs. Nodes agree, unless a user stopped the job at its end."""
        return min(self.results.values(), default="")

    def spent(self, until: int) -> int:
        """How many attempts before one have failed by themselves. Those whose member is gone do not count.

        A member that is there posts for the next attempt, too.
        """
        return sum(
            not self.attempt(number).lost
            and self.attempt(number).is_over()
            and set(self.attempt(number).ready) <= set(self.attempt(number + 1).ready)
            for number in range(1, until)
        )


def read_board(job_id: str, streams: Mapping[str, float]) -> Board:
    """Read the board of a job. Names that it does not know are left out.

    Args:
        job_id: The job.
        streams: Names of streams, and when each was created, in milliseconds since 1970.

    Example:
        >>> board = read_board("20261123-120000-a1b2", {"jobs/20261123-120000-a1b2/result/0/i-0a/10.0.0.1": 0.0})
        >>> board.result
        '0'
    """
    board = Board()
    prefix = f"{JOBS}/{job_id}/"
    for stream, created in streams.items():
        if stream.startswith(prefix):
            _read(board, stream[len(prefix) :], created)
    return board


def _read(board: Board, name: str, created: float) -> None:
    if found := _FLAG.fullmatch(name):
        attempt = board.attempts.setdefault(int(found["attempt"]), Attempt())
        member = Member(found["instance"], found["address"])
        if found["place"]:
            attempt.ready[member] = created
            attempt.places[member] = found["place"]
        elif found["state"] == "lost":
            attempt.lost.add(member)
        else:
            attempt.exits[member] = (int(found["status"]), created)
    elif found := _RESULT.fullmatch(name):
        board.results[Member(found["instance"], found["address"])] = found["result"]
    elif found := _LOG.fullmatch(name):
        board.logs.add(Member(found["instance"], found["address"]))


def attempt_prefix(number: int) -> str:
    """First part of the names of an attempt, below the job's.

    Example:
        >>> attempt_prefix(2)
        'attempt/0002/'
    """
    return f"attempt/{number:04}/"
