"""What is known of a live cluster at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters_stacks.cost import Live
from cdk_gpu_clusters_stacks.cost.money import Usd
from cdk_gpu_clusters_stacks.preflight.unread import Unread


class NodeState(StrEnum):
    """What a node does, as far as AWS and its watchdog show it."""

    IN_SERVICE = "in service"
    BOOTING = "booting"
    #: EC2 runs it, and nothing tells whether its boot has ended.
    RUNNING = "running"
    FAILING = "failing"
    LEAVING = "leaving"
    STANDBY = "standby"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a fleet.

    Attributes:
        instance_id: Its instance.
        state: What it does.
        lifecycle: The state that AWS gives it, such as `Pending:Wait`.
        severity: What its watchdog asks for; None without a value in the last minutes.
        reason: Why it fails; empty for other states.
    """

    instance_id: str
    state: NodeState
    lifecycle: str
    severity: Severity | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job of a fleet that has not ended.

    Attributes:
        job_id: The job.
        state: As `gpu-clusters jobs list` names it.
        nodes: Nodes that it takes.
        requested_at: When it was requested.
        command: What it runs.
    """

    job_id: str
    state: str
    nodes: int
    requested_at: str
    command: str


@dataclass(slots=True, kw_only=True)
class Fleet:
    """A group of nodes: a fleet of the file, the login nodes of Slurm, or the system nodes of a cluster on EKS.

    Attributes:
        name: Its key in the cluster file, otherwise what its stack holds.
        group: Name or id of the group in AWS.
        least: Fewest nodes that are wanted now; None if that is unknown.
        most: Most nodes that are wanted now: more than `least` only if Slurm decides.
        nodes: Its nodes; None if they are unknown.
        jobs: Jobs that have not ended; None if they are unknown, or are not those of this library.
        problems: What AWS and the nodes report about it: suspended launches, faults of the group, failed boots.
    """

    name: str
    group: str
    least: int | None = None
    most: int | None = None
    nodes: list[Node] | None = None
    jobs: list[Job] | None = None
    problems: list[str] = field(default_factory=list)

    def count(self, state: NodeState) -> int:
        """How many nodes are in a state."""
        return sum(one.state is state for one in self.nodes or ())

    @property
    def missing(self) -> int:
        """How many nodes are wanted beyond those that are there or on their way; 0 if that is unknown."""
        if self.nodes is None or self.least is None:
            return 0
        here = (NodeState.IN_SERVICE, NodeState.BOOTING, NodeState.RUNNING, NodeState.FAILING)
        return max(self.least - sum(map(self.count, here)), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Reserved capacity of a fleet, or its life span.

    Attributes:
        fleet: Key of the fleet.
        reservation_id: The reservation or block; empty for capacity that only ends.
        kind: How it is bought.
        state: As EC2 names it; empty if that is unknown.
        count: Reserved instances; None if that is unknown.
        used: How many of them run instances.
        starts_at: When it starts; empty if it has, or always was there.
        drain_at: When its nodes begin to drain; empty for capacity without an end.
        ends_at: When it ends; empty without an end.
        seconds_to_drain: From now to its drain, negative after it; None without one.
        seconds_to_end: From now to its end, negative after it; None without one.
        planned_end: The end in the cluster file, if EC2 has another one.
    """

    fleet: str
    reservation_id: str
    kind: str
    state: str = ""
    count: int | None = None
    used: int | None = None
    starts_at: str = ""
    drain_at: str = ""
    ends_at: str = ""
    seconds_to_drain: int | None = None
    seconds_to_end: int | None = None
    planned_end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alarm that is raised.

    Attributes:
        name: Its name in CloudWatch.
        about: The key of the cluster file whose stack has it.
        what: Its logical id in the stack.
        since: Since when it is raised; empty if that is unknown.
        reason: Why, in CloudWatch's words.
    """

    name: str
    about: str
    what: str
    since: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDevice:
    """What a queue of Kueue has of a device of a fleet.

    Attributes:
        fleet: The fleet, which is a flavor of the queue.
        resource: Name of the device in Kubernetes.
        quota: Devices that are the queue's.
        used: Devices that its jobs have.
        borrowed: How many of these are of other queues.
    """

    fleet: str
    resource: str
    quota: int
    used: int
    borrowed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A ClusterQueue of Kueue: that of a team, or of all others.

    Attributes:
        name: Its name.
        waiting: Jobs that wait in it.
        running: Jobs of it that have their devices.
        devices: What it has of each device; devices of which it has neither a quota nor any in use are left out.
    """

    name: str
    waiting: int
    running: int
    devices: list[QueueDevice]


@dataclass(slots=True, kw_only=True)
class Status:
    """What is known of a cluster now.

    Attributes:
        cluster: Its name.
        region: Its Region.
        account: The account; empty if it is unknown.
        at: When.
        fleets: Its groups of nodes that are deployed.
        capacity: Reservations, blocks and life spans of its fleets.
        alarms: Alarms that are raised; None if they are unknown.
        alarm_count: How many alarms its stacks have.
        queues: Queues of Kueue; None if they were not given.
        jobs_elsewhere: Where the jobs are that are not read here; empty if there are none.
        cost: What runs, at list prices.
        usd_per_day: What all of it costs for 24 hours, least and most, in cents; None if that is unknown.
        unread: What could not be read.
        absent: Stacks that are not deployed.
    """

    cluster: str
    region: str
    account: str
    at: str
    fleets: list[Fleet] = field(default_factory=list)
    capacity: list[Capacity] = field(default_factory=list)
    alarms: list[Alarm] | None = None
    alarm_count: int = 0
    queues: list[Queue] | None = None
    jobs_elsewhere: str = ""
    cost: Live
    usd_per_day: Usd | None = None
    unread: list[Unread] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        """Whether nothing that is known is wrong: no node fails or is missing, and no alarm is raised."""
        return not self.alarms and not any(
            one.missing or one.count(NodeState.FAILING) or one.problems for one in self.fleets
        )
