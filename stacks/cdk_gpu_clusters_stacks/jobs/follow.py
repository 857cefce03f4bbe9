"""Follows a job to its end: what its ranks print, and how its nodes are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from cdk_gpu_clusters.node.gpunode.fleet_jobs.board import Attempt, Board, Member
from cdk_gpu_clusters_stacks.counting import count

from .client import Line, PastJob
from .fleet import JobFleet

_PAUSE_SECONDS = 3.0
# Events arrive in the order in which nodes send them, a few seconds apart: look back as far as that.
_LOOK_BACK_MILLISECONDS = 30_000
# From one look whether another job was requested to the next.
_REPLACED_SECONDS = 30.0
#: Result of a job in whose place another one was requested.
REPLACED = "replaced"
# The last lines of a job come after its result.
_LAST_LINES_SECONDS = 10.0
_REFUSAL_SECONDS = 30.0


class Source(Protocol):
    """A job's fleet, as `FleetJobs` is."""

    def board(self, job_id: str) -> Board: ...
    def lines(self, job_id: str, since_milliseconds: int = 0) -> Iterator[Line]: ...
    def nodes(self) -> JobFleet: ...
    def refusals(self, command_id: str) -> dict[str, str]: ...
    def replacement(self, job_id: str) -> PastJob | None: ...


@dataclass(frozen=True, kw_only=True)
class NodeState:
    """A node of the fleet, in relation to a job.

    Attributes:
        name: Name of the host, or the instance while its address is unknown.
        instance_id: The instance.
        state: What it does, in words.
    """

    name: str
    instance_id: str
    state: str


@dataclass
class View:
    """What is known of a job now.

    Attributes:
        attempt: Number of the attempt; 0 before the first.
        ready: Nodes that are ready for it.
        wanted: Nodes that the job takes.
        nodes: All nodes of the fleet.
        result: The result; empty while it runs.
        refusals: Nodes that did not look for the job, and why.
    """

    attempt: int = 0
    ready: int = 0
    wanted: int = 0
    nodes: list[NodeState] = field(default_factory=list)
    result: str = ""
    refusals: dict[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The state in one line."""
        if self.result:
            return f"ended: {self.result}"
        if self.ready < self.wanted:
            are_ready = "node is ready" if self.wanted == 1 else "nodes are ready"
            return f"{self.ready} of {self.wanted} {are_ready}"
        return f"attempt {self.attempt} runs on {count(self.wanted, 'node')}"


def host_name(address: str) -> str:
    """Name of a host by its address (Amazon EC2 user guide, "Amazon EC2 instance hostname types": IP name).

    Example:
        >>> host_name("10.0.0.5")
        'ip-10-0-0-5'
    """
    return f"ip-{address.replace('.', '-')}"


def view_of(board: Board, fleet: JobFleet, wanted: int) -> View:
    """What the nodes of a fleet do for a job.

    Args:
        board: What they say.
        fleet: The fleet as it is now.
        wanted: Nodes that the job takes.
    """
    attempt = board.attempt(board.newest)
    known = {one.instance_id: one for one in (*board.logs, *attempt.ready)}
    nodes = [
        NodeState(
            name=host_name(known[name].address) if name in known else name,
            instance_id=name,
            state=_state(known.get(name), attempt, life, wanted),
        )
        for name, life in fleet.nodes.items()
    ]
    gone = [one for one in attempt.members(wanted) if one.instance_id not in fleet.nodes]
    nodes += [NodeState(name=host_name(one.address), instance_id=one.instance_id, state="gone") for one in gone]
    missing = max(0, wanted - len(fleet.nodes))
    nodes += [NodeState(name="-", instance_id="-", state="not launched yet")] * missing
    return View(
        attempt=board.newest,
        ready=min(len(attempt.ready), wanted),
        wanted=wanted,
        nodes=nodes,
        result=board.result,
    )


def _state(member: Member | None, attempt: Attempt, life: str, wanted: int) -> str:
    if life != "InService":
        return f"boots ({life})" if life.startswith("Pending") else life
    if member is None or member not in attempt.ready:
        return "in service"
    if member in attempt.exits:
        return f"ended with {attempt.exits[member][0]}"
    members = attempt.members(wanted)
    if member not in members:
        return "spare"
    return "runs" if len(members) == wanted else "ready"


def follow(
    source: Source,
    job_id: str,
    *,
    wanted: int,
    on_line: Callable[[str, Line], object],
    on_view: Callable[[View], object],
    command_id: str = "",
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Pass on lines and states until a job ends.

    Args:
        source: The fleet.
        job_id: The job.
        wanted: Nodes that it takes.
        on_line: Gets the host's name and each line once.
        on_view: Gets the state at each look.
        command_id: Command that made the nodes look for the job; empty if it is long ago.
        clock: Seconds that only grow.
        sleep: Waits.

    Returns:
        The result; `replaced` if another job was requested since.
    """
    lines = _Lines(source, job_id, on_line)
    begin, ended_at, refusals = clock(), None, {}
    asked_at = begin
    while True:
        view = view_of(source.board(job_id), source.nodes(), wanted)
        if command_id and view.ready < wanted and clock() - begin > _REFUSAL_SECONDS:
            refusals = source.refusals(command_id)
        view.refusals = refusals
        lines.pass_on()
        on_view(view)
        if view.result:
            ended_at = clock() if ended_at is None else ended_at
            if clock() - ended_at >= _LAST_LINES_SECONDS:
                return view.result
        elif clock() - asked_at >= _REPLACED_SECONDS:
            asked_at = clock()
            if source.replacement(job_id) is not None:
                return REPLACED
        sleep(_PAUSE_SECONDS)


class _Lines:
    """Each line once, in the order in which it is first seen."""

    def __init__(self, source: Source, job_id: str, on_line: Callable[[str, Line], object]) -> None:
        self._source, self._job_id, self._on_line = source, job_id, on_line
        self._newest = 0
        self._seen: dict[str, int] = {}

    def pass_on(self) -> None:
        since = max(0, self._newest - _LOOK_BACK_MILLISECONDS)
        for line in self._source.lines(self._job_id, since):
            if line.id in self._seen:
                continue
            self._seen[line.id] = line.milliseconds
            self._newest = max(self._newest, line.milliseconds)
            self._on_line(host_name(line.address), line)
        since = max(0, self._newest - _LOOK_BACK_MILLISECONDS)
        self._seen = {name: when for name, when in self._seen.items() if when >= since}
