"""A group of a fleet on Capacity Blocks, minute by minute, in hostile circumstances.

The definition and the alarms that a template has are run; everything that AWS decides is decided here again: which
launches a block takes, what suspends launching, which calls fail, which events are lost. Nothing here reads windows
from the definition, but the moments at which it may decide otherwise.

A minute is left out only where it is the same as the one before: nothing has changed for longer than any alarm looks
back, a run has found nothing to do, and no moment that anyone compares the time with has come: of blocks, nodes,
troubles, deployments, the definition and the alarms.
"""

from __future__ import annotations

import json
import random
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from gpu_clusters_emulator.alarms import evaluated
from gpu_clusters_emulator.clock import format_time
from gpu_clusters_emulator.jsonata_states import Failed, QueryError, caught, run_state

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
BOOT_MINUTES, HOOK_MINUTES = 8, 3
#: How often the rule of the template starts a run.
PERIOD = 5
# No alarm of the template looks back longer.
_LOOK_BACK = 45 * MINUTE
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_EPOCH = re.compile(r"\b\d{10}\b")


@dataclass
class Block:
    """A block as EC2 has it: it takes launches from its start until 30 minutes before its end."""

    id: str
    starts: datetime
    ends: datetime
    nodes: int

    def takes_launches(self, now: datetime) -> bool:
        return self.starts <= now < self.ends - 30 * MINUTE

    def is_wanted(self, now: datetime) -> bool:
        """The guide asks for an empty group 40 minutes before the end."""
        return self.starts <= now < self.ends - 40 * MINUTE

    @property
    def moments(self) -> list[datetime]:
        return [self.starts, *(self.ends - lead * MINUTE for lead in (40, 30, 0))]


@dataclass
class Node:
    id: str
    block: str
    ready_at: datetime
    leaves_at: datetime | None = None


@dataclass
class Deployed:
    """What a deployment of a list of blocks writes: the state machine, its alarms by name, and the events it follows."""

    machine: dict[str, Any]
    alarms: dict[str, dict[str, Any]]

    @cached_property
    def moments(self) -> list[datetime]:
        """With which they compare the time."""
        text = json.dumps([self.machine, self.alarms])
        found = [datetime.fromisoformat(one).replace(tzinfo=UTC) for one in set(_INSTANT.findall(text))]
        found += [datetime.fromtimestamp(int(one), UTC) for one in set(_EPOCH.findall(text))]
        return [one for one in found if one.year < 9999]


#: Makes what a deployment of blocks writes.
Deploy = Callable[[Sequence[Block]], Deployed]


class Throttled(Exception):
    name = "AutoScaling.ThrottlingException"


@dataclass
class Account:
    """A group, its blocks, and what goes wrong."""

    blocks: list[Block]
    chance: random.Random
    now: datetime = START
    desired: int = 0
    nodes: list[Node] = field(default_factory=list)
    suspended: bool = False
    alarm_until: datetime = START
    manual: bool = False
    failing_until: datetime = START
    served: int = 0
    cut: int = 0
    grouped: set[str] = field(default_factory=set)

    @property
    def most(self) -> int:
        return sum(sorted(one.nodes for one in self.blocks)[-2:])

    def call(self, task: dict[str, Any], sent: dict[str, Any]) -> Any:
        """A task, whose Retry is further attempts; a throttled one fails for a moment, others for minutes."""
        attempts = sum(one["MaxAttempts"] for one in task.get("Retry", []))
        for attempt in range(1 + attempts):
            if self.now >= self.failing_until and self.chance.random() >= 0.05:
                break
            if attempt == attempts:
                raise Throttled(task["Resource"])
        operation: Callable[..., Any] = getattr(self, task["Resource"].rpartition(":")[2])
        return operation(**sent)

    def describeAutoScalingGroups(self, AutoScalingGroupNames: list[str]) -> Any:  # noqa: N802, N803
        assert AutoScalingGroupNames == ["trainers"]
        tags = [{"Key": "gpu-clusters:size", "Value": "manual"}] if self.manual else []
        return {
            "AutoScalingGroups": [
                {
                    "DesiredCapacity": self.desired,
                    "MinSize": 0,
                    "MaxSize": self.most,
                    "SuspendedProcesses": [{"ProcessName": "Launch"}] if self.suspended else [],
                    "Tags": [{"Key": "Name", "Value": "trainers"}, *tags],
                    "Instances": [{"InstanceId": one.id, "LifecycleState": self._state(one)} for one in self.nodes],
                }
            ]
        }

    def _state(self, node: Node) -> str:
        if node.leaves_at is not None:
            return "Terminating:Wait"
        return "InService" if node.ready_at <= self.now else "Pending:Wait"

    def describeAlarms(self, AlarmNames: list[str]) -> Any:  # noqa: N802, N803
        assert AlarmNames == ["${Alarm}"]
        return {"MetricAlarms": [{"StateValue": "ALARM" if self.now < self.alarm_until else "OK"}]}

    def describeInstances(self, Filters: list[dict[str, Any]]) -> Any:  # noqa: N802, N803
        wanted = {one["Name"]: one["Values"] for one in Filters}
        ids, blocks = wanted["instance-id"], wanted.get("capacity-reservation-id")
        found = [one for one in self.nodes if one.id in ids and (blocks is None or one.block in blocks)]
        return {"Reservations": [{"Instances": [{"InstanceId": one.id}]} for one in found]}

    def terminateInstanceInAutoScalingGroup(self, InstanceId: str, ShouldDecrementDesiredCapacity: bool) -> Any:  # noqa: N802, N803
        (node,) = [one for one in self.nodes if one.id == InstanceId]
        (block,) = [one for one in self.blocks if one.id == node.block]
        assert not block.is_wanted(self.now), "a node of a block that goes on"
        node.leaves_at = node.leaves_at or self.now + HOOK_MINUTES * MINUTE
        self.desired -= ShouldDecrementDesiredCapacity
        return {}

    def setDesiredCapacity(self, AutoScalingGroupName: str, DesiredCapacity: int, HonorCooldown: bool) -> Any:  # noqa: N802, N803
        assert (AutoScalingGroupName, HonorCooldown) == ("trainers", False)
        assert 0 <= DesiredCapacity <= self.most
        assert not self.manual, "the operator's own size"
        self.desired = DesiredCapacity
        return {}

    def groupResources(self, Group: str, ResourceArns: list[str]) -> Any:  # noqa: N802, N803
        assert Group == "${Blocks}"
        ids = {arn.removeprefix("${Reservations}/") for arn in ResourceArns}
        assert ids
        assert ids <= {one.id for one in self.blocks if one.starts <= self.now < one.ends}, "EC2 takes active ones only"
        self.grouped |= ids
        return {"Succeeded": ResourceArns, "Failed": [], "Pending": []}

    def updateAutoScalingGroup(self, AutoScalingGroupName: str, MinSize: int, DesiredCapacity: int) -> Any:  # noqa: N802, N803
        assert (AutoScalingGroupName, MinSize, DesiredCapacity) == ("trainers", 0, 0)
        self.desired = 0
        return {}

    def resumeProcesses(self, AutoScalingGroupName: str, ScalingProcesses: list[str]) -> Any:  # noqa: N802, N803
        assert (AutoScalingGroupName, ScalingProcesses) == ("trainers", ["Launch"])
        assert self.now >= self.alarm_until, "launches still fail"
        self.suspended = False
        return {}

    def settle(self) -> None:
        """What EC2 and Auto Scaling do within a minute."""
        taking = {one.id: one for one in self.blocks if one.takes_launches(self.now)}
        self.cut += sum(one.block not in taking for one in self.nodes)
        self.nodes = [
            one for one in self.nodes if one.block in taking and (one.leaves_at is None or one.leaves_at > self.now)
        ]
        staying = [one for one in self.nodes if one.leaves_at is None]
        for node in staying[max(0, self.desired) :]:
            node.leaves_at = self.now + HOOK_MINUTES * MINUTE
        if self.suspended:
            return
        missing = self.desired - len(staying)
        for block in taking.values():
            room = block.nodes - sum(one.block == block.id for one in self.nodes)
            for _ in range(min(room, missing) if block.id in self.grouped else 0):
                self.served += 1
                missing -= 1
                self.nodes.append(Node(f"i-{self.served}", block.id, self.now + BOOT_MINUTES * MINUTE))

    @property
    def wanted(self) -> int:
        return sum(one.nodes for one in self.blocks if one.is_wanted(self.now))

    def counted(self) -> tuple[int, int]:
        """Nodes in service, and nodes that boot."""
        states = [self._state(one) for one in self.nodes]
        return states.count("InService"), states.count("Pending:Wait")

    def told(self) -> str:
        """For a failed assertion."""
        return f"{self.now}: wanted {self.wanted}, {self.picture}"

    @property
    def picture(self) -> tuple[Any, ...]:
        """All that a run, a launch or an alarm depends on, but the time."""
        nodes = tuple((one.id, self._state(one)) for one in self.nodes)
        return self.desired, self.suspended, self.manual, nodes, frozenset(self.grouped)

    @property
    def moments(self) -> Iterator[datetime]:
        for block in self.blocks:
            yield from block.moments
        for node in self.nodes:
            yield node.ready_at
            if node.leaves_at is not None:
                yield node.leaves_at
        yield from (self.alarm_until, self.failing_until)


def run(machine: Mapping[str, Any], account: Account, *, periodic: bool) -> bool:
    """One execution; False if it failed."""
    data: Any = {"group": "trainers", "periodic": periodic}
    name, variables = machine["StartAt"], dict[str, Any]()
    context = {"State": {"EnteredTime": format_time(account.now)}}
    try:
        while name is not None:
            state = machine["States"][name]
            try:
                name, data = run_state(state, data, context, variables, account.call)
            except Throttled as error:
                goes = caught(state, error.name, str(error), data, variables)
                if goes is None:
                    return False
                name, data = goes
    except (QueryError, Failed) as error:
        raise AssertionError(f"{name}: {error}") from error
    return True


def calendar(chance: random.Random, count: int) -> list[Block]:
    """Blocks of one to fourteen days: with gaps, without, and side by side."""
    found, moment = [], START + 11.5 * timedelta(hours=1)
    for number in range(count):
        days = chance.choice([1, 2, 3, 7, 14])
        found.append(Block(f"cr-{number:017x}", moment, moment + days * DAY, chance.choice([1, 2, 3])))
        side_by_side = days > 1 and number % 3 == 1
        moment += timedelta(days=days) * 0.5 if side_by_side else (days + chance.choice([0, 0, 1, 3])) * DAY
    return found


@dataclass
class Series:
    """What CloudWatch has of the group: a sample a minute, and the runs that succeeded."""

    rows: list[tuple[datetime, int, int]] = field(default_factory=list)
    runs: list[datetime] = field(default_factory=list)

    def values(self, metric: Mapping[str, Any], since: datetime, until: datetime) -> Sequence[float]:
        if metric["MetricName"] == "ExecutionsSucceeded":
            return [1.0] * (bisect_right(self.runs, until) - bisect_right(self.runs, since))
        place = bisect_right(self.rows, until, key=lambda row: row[0])
        if not place:
            return []
        _, ready, booting = self.rows[place - 1]
        return [float({"GroupInServiceInstances": ready, "GroupPendingInstances": booting}[metric["MetricName"]])]


@dataclass
class Shortage:
    """For how long paid nodes are missing, and whether an alarm tells that in time, and never otherwise.

    Attributes:
        minutes: After which time it shall be raised.
    """

    minutes: int
    is_short: bool = False
    was_short: bool = False
    since: datetime | None = None
    told_since: datetime | None = None

    def look(self, now: datetime, *, is_short: bool) -> None:
        """See a minute."""
        self.was_short, self.is_short = self.is_short, is_short
        self.since = (self.since or now) if is_short else None
        # CloudWatch has one sample a minute: a window may end, and its nodes be ended, between two that are short.
        if is_short:
            self.told_since = self.told_since or now
        elif not self.was_short:
            self.told_since = None

    def is_due(self, now: datetime) -> bool:
        """Whether the alarm must be raised from this minute on."""
        return self.since is not None and now - self.since == (self.minutes + 1) * MINUTE

    def judge(self, now: datetime, *, is_raised: bool) -> bool:
        """Whether the alarm is raised, rightly."""
        lasts = self.since is not None and now - self.since > self.minutes * MINUTE
        assert is_raised or not lasts, f"short since {self.since} until {now}, and not told"
        early = self.told_since is None or now - self.told_since < (self.minutes - 1) * MINUTE
        assert not is_raised or not early, f"told at {now}, and short since {self.told_since}"
        return is_raised


@dataclass
class Year:
    """The time as it passes.

    Attributes:
        account: The account.
        deploy: Makes what a deployment writes.
        chance: What decides about troubles and lost events.
    """

    account: Account
    deploy: Deploy
    chance: random.Random
    known: int = 4
    executed: int = 0
    failed: int = 0
    unlucky: int = 0
    minutes: int = 0
    told: int = 0
    series: Series = field(default_factory=Series)
    quiet: tuple[Any, ...] | None = None
    quiet_until: datetime = START
    changed_at: datetime = START
    wrong_since: datetime | None = None
    unfilled_since: datetime | None = None
    troubled_until: datetime = START
    next_trouble: datetime = START

    def __post_init__(self) -> None:
        self._unused, self._missing = Shortage(10), Shortage(40)
        self._write()

    def pass_by(self, until: datetime) -> None:
        """Let every minute pass until then."""
        while self.account.now < until:
            self._minute()
            self.account.now += self._step(until)

    def _write(self) -> None:
        """The list of blocks as an operator keeps it: without those that were over yesterday."""
        listed = self.account.blocks[: self.known]
        self.deployed = self.deploy([one for one in listed if one.ends > self.account.now - DAY])
        self.ticks = self.chance.randrange(PERIOD)
        self.quiet = None

    def _step(self, until: datetime) -> timedelta:
        account = self.account
        is_new = account.now >= self.quiet_until or account.now - self.changed_at <= _LOOK_BACK
        if self.quiet != account.picture or is_new:
            return MINUTE
        following = min(one for one in (*self._moments, until) if one > account.now)
        step = (following - account.now) // MINUTE * MINUTE
        if step <= 2 * MINUTE:
            return MINUTE
        # Runs go on, and find what the last one found.
        last = following - MINUTE
        earlier = [last - ago * MINUTE for ago in range(3 * PERIOD, -1, -PERIOD)]
        self.series.runs += [one for one in earlier if one > self.series.runs[-1]]
        return step

    @property
    def _moments(self) -> list[datetime]:
        """With which anyone compares the time."""
        planned = [self.troubled_until, self.next_trouble, self._deploys_at()]
        return [*self.account.moments, *self.deployed.moments, *planned]

    def _deploys_at(self) -> datetime:
        blocks = self.account.blocks
        return blocks[self.known - 2].starts if self.known < len(blocks) else datetime.max.replace(tzinfo=UTC)

    def _minute(self) -> None:
        account, before = self.account, self.account.picture
        events = self._deployment()
        if account.now >= self.next_trouble:
            trouble(account, self.chance)
            self.troubled_until = max(account.failing_until, account.now) + 2 * PERIOD * MINUTE
            self.next_trouble = account.now + self.chance.randint(300, 3000) * MINUTE
            self.quiet = None
        told = (moment for one in account.blocks for moment in (one.starts, one.ends - 40 * MINUTE))
        if account.now in (account.alarm_until, *told):
            events = True
            self.quiet = None
        account.settle()
        is_due = int((account.now - START) / MINUTE) % PERIOD == self.ticks
        if (is_due or events) and self.chance.random() >= (0.01 if is_due else 0.2):  # else the event is lost
            self._reconcile(periodic=is_due)
        elif is_due:
            self.troubled_until = max(self.troubled_until, account.now + 2 * PERIOD * MINUTE)
        if account.picture != before:
            self.changed_at = account.now
        self.minutes += 1
        self._judge()

    def _deployment(self) -> bool:
        """The operator lists a further block before the listed ones are over, and extends one now and then."""
        blocks, now = self.account.blocks, self.account.now
        if now < self._deploys_at():
            return False
        last = blocks[self.known - 1]
        if self.chance.random() < 0.3 and last.ends + DAY <= blocks[self.known].starts:
            last.ends += DAY
        self.known += 1
        self._write()
        return True

    def _reconcile(self, *, periodic: bool) -> None:
        account = self.account
        before = account.picture
        if before == self.quiet and account.now < self.quiet_until:
            self._succeed()
            return  # it found nothing to do with the same in view
        self.executed += 1
        if not run(self.deployed.machine, account, periodic=periodic):
            self.failed += 1
            self.unlucky += account.now >= account.failing_until
            assert self.unlucky <= 3 + self.executed / 50, f"{self.unlucky} of {self.executed} runs failed"
            self.troubled_until = max(self.troubled_until, account.now + 2 * PERIOD * MINUTE)
            self.quiet = None
            return
        self._succeed()
        account.settle()
        is_same = before == account.picture and (periodic or not self._hands_over)
        self.quiet = before if is_same else None
        self.quiet_until = min(one for one in self._moments if one > account.now)
        self._judge_size()

    def _succeed(self) -> None:
        self.series.runs.append(self.account.now)

    def _judge_size(self) -> None:
        """After a run that succeeded the size is right, but for an operator's own and nodes of a block that drains."""
        account, wanted = self.account, self.account.wanted
        if account.manual and wanted:
            return
        assert account.desired == wanted or self._hands_over, (wanted, account.told())
        held = wanted and account.suspended and account.now >= account.alarm_until and not self._hands_over
        assert not held, account.told()

    @property
    def _hands_over(self) -> bool:
        now = self.account.now
        return any(one.ends - 40 * MINUTE <= now < one.ends - 29 * MINUTE for one in self.account.blocks)

    def _judge(self) -> None:
        """What holds at every minute."""
        account, wanted, now = self.account, self.account.wanted, self.account.now
        ready, booting = account.counted()
        if not self.series.rows or self.series.rows[-1][1:] != (ready, booting):
            self.series.rows.append((now, ready, booting))
        is_calm = now >= self.troubled_until and now >= account.alarm_until
        wrong = account.desired != wanted and not (account.manual and wanted) and not self._hands_over
        self.wrong_since = (self.wrong_since or now) if wrong and is_calm else None
        assert self.wrong_since is None or now - self.wrong_since <= (PERIOD + 1) * MINUTE, (wanted, account.told())
        over = sum(one.nodes for one in account.blocks if one.takes_launches(now))
        assert len(account.nodes) <= over, account.told()
        assert not account.cut or not is_calm, f"{account.cut} nodes were ended by EC2 before they had drained"
        account.cut = 0
        is_idle = ready + booting < wanted
        kept = not is_calm or account.manual or self._hands_over
        self.unfilled_since = None if kept or not is_idle else self.unfilled_since or now
        assert self.unfilled_since is None or now - self.unfilled_since <= 2 * PERIOD * MINUTE, account.told()
        self._unused.look(now, is_short=is_idle)
        self._missing.look(now, is_short=ready < wanted)
        self._judge_alarms()

    def _judge_alarms(self) -> None:
        now, state = self.account.now, self._alarm_state
        for name, shortage in (("UnusedCapacity", self._unused), ("MissingNodes", self._missing)):
            if now.minute % 7 == 0 or shortage.is_due(now):
                self.told += shortage.judge(now, is_raised=state(name) == "ALARM")
        if now.minute % 7 == 0 or not self.series.runs or now - self.series.runs[-1] > 10 * MINUTE:
            late = not self.series.runs or now - self.series.runs[-1] >= 15 * MINUTE
            assert (state("NotReconciled") == "ALARM") == late, (now, self.series.runs[-3:])

    def _alarm_state(self, name: str) -> str:
        return evaluated(self.deployed.alarms[name], self.series.values, self.account.now)


def trouble(account: Account, chance: random.Random) -> None:
    """Something happens that nobody planned."""
    kind = chance.choice(["suspend", "loop", "fail", "manual", "own size", "lost nodes"])
    if kind in ("suspend", "loop"):
        account.suspended = True
        account.nodes = account.nodes[: chance.randint(0, len(account.nodes))]
        account.alarm_until = account.now + (chance.randint(60, 120) * MINUTE if kind == "loop" else timedelta(0))
    elif kind == "fail":
        account.failing_until = account.now + chance.randint(5, 40) * MINUTE
    elif kind == "manual":
        account.manual = not account.manual
    elif kind == "own size" and account.wanted:
        account.desired = chance.randint(0, account.wanted)
        account.manual = chance.random() < 0.5
    elif account.nodes:
        account.nodes.pop()
