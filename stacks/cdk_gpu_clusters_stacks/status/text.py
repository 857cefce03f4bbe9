"""The state of a cluster as text for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.plan.layout import Row, Section, lay_out
from cdk_gpu_clusters_stacks.preflight.unread import Unread

from .model import Alarm, Capacity, Fleet, Job, Node, NodeState, Queue, Status

#: More nodes than this are counted; JSON has all of them.
_MOST_NODES = 8
#: States whose nodes are named.
_NAMED = (NodeState.BOOTING, NodeState.RUNNING, NodeState.LEAVING, NodeState.STANDBY)
_CANNOT_TELL = "cannot tell:"


def status_text(status: Status, *, width: int) -> str:
    """The state of a cluster: fleets, alarms, cost, and what could not be read.

    Args:
        status: The state.
        width: Characters of a line; names that are longer are not broken.
    """
    return lay_out(sections_of(status), width=width)


def sections_of(status: Status) -> Iterator[Section]:
    """The parts of the text, each below its heading."""
    account = f"account {status.account}" if status.account else "an unknown account"
    yield Section(f"{status.cluster} in {status.region}, {account}, {status.at}: {summary(status)}", [])
    shown = {one.name for one in status.fleets}
    for fleet in status.fleets:
        yield Section(fleet.name, list(_fleet(fleet, status)))
    for key in dict.fromkeys(one.fleet for one in status.capacity if one.fleet not in shown):
        shown.add(key)
        yield Section(key, [*_capacity(key, status), *_unread_of(key, status)])
    yield Section("Alarms", list(_alarms(status)))
    yield Section("Cost at list prices", list(_cost(status)))
    if status.queues is not None:
        yield Section("Queues", [Row(one.name, list(queue_words(one))) for one in status.queues])
    if status.jobs_elsewhere:
        yield Section("Jobs", [Row("not read", [status.jobs_elsewhere])])
    rest = [one for one in status.unread if one.about not in shown and not one.call.endswith("DescribeAlarms")]
    if rest:
        yield Section("Other calls", [Row(_CANNOT_TELL, [unread_words(one) for one in rest])])
    if status.absent:
        yield Section("Not deployed", [Row("stacks", [", ".join(status.absent)]), Row("fix", ["cdk deploy --all"])])


def summary(status: Status) -> str:
    """What is wrong, in a few words."""
    failing = sum(one.count(NodeState.FAILING) for one in status.fleets)
    missing = sum(one.missing for one in status.fleets)
    words = [
        *([f"{count(failing, 'node')} failing"] if failing else []),
        *([f"{count(missing, 'node')} missing"] if missing else []),
        *([f"{count(len(status.alarms), 'alarm')} raised"] if status.alarms else []),
        *([count(number, "problem")] if (number := sum(len(one.problems) for one in status.fleets)) else []),
    ]
    if words:
        return ", ".join(words)
    is_partial = status.unread or status.absent or any(one.nodes is None for one in status.fleets)
    return "nothing wrong in what could be read" if is_partial else "nothing wrong"


# Fleets.


def _fleet(fleet: Fleet, status: Status) -> Iterator[Row]:
    yield Row("nodes", [node_words(fleet)])
    if fleet.nodes is not None:
        yield from _nodes(fleet.nodes)
    for problem in fleet.problems:
        yield Row("problem", [problem])
    if fleet.jobs is not None:
        yield Row("jobs", [job_words(one) for one in fleet.jobs] or ["none"])
    yield from _capacity(fleet.name, status)
    yield from _unread_of(fleet.name, status)


def node_words(fleet: Fleet) -> str:
    """How many nodes are wanted, and how many are in each state."""
    wanted = "unknown" if fleet.least is None else f"{fleet.least:,}"
    if fleet.most != fleet.least:
        wanted = f"{fleet.least:,} to {fleet.most:,}"
    if fleet.nodes is None:
        return f"{wanted} wanted, unknown how many there are"
    states = [f"{number:,} {state}" for state in NodeState if (number := fleet.count(state))]
    missing = [f"{fleet.missing:,} missing"] if fleet.missing else []
    return f"{wanted} wanted: {', '.join([*states, *missing]) or 'none'}"


def _nodes(nodes: Sequence[Node]) -> Iterator[Row]:
    for one in nodes:
        if one.state is NodeState.FAILING:
            yield Row("failing", [f"{one.instance_id} ({one.lifecycle}): {one.reason}"])
    for state in _NAMED:
        names = [one.instance_id for one in nodes if one.state is state]
        if names:
            more = f" and {len(names) - _MOST_NODES:,} more" if len(names) > _MOST_NODES else ""
            yield Row(state, [", ".join(names[:_MOST_NODES]) + more])
    if words := severity_words(nodes):
        yield Row("watchdog", [words])


def severity_words(nodes: Sequence[Node]) -> str:
    """How many nodes have each severity; empty without any value."""
    found = Counter(one.severity for one in nodes if one.severity is not None)
    words = [f"{found[severity]:,} {severity_name(severity)}" for severity in sorted(found)]
    silent = len(nodes) - found.total()
    return ", ".join([*words, *([f"{silent:,} without a value"] if silent else [])]) if words else ""


def severity_name(severity: Severity) -> str:
    """A severity in lower case, such as `replace`."""
    return severity.name.lower()


def job_words(job: Job) -> str:
    """A job in one line."""
    return f"{job.job_id}: {job.state}, {count(job.nodes, 'node')}, since {job.requested_at}: {job.command}"


def queue_words(queue: Queue) -> Iterator[str]:
    """What a queue of Kueue has and uses, a line for each device, and its jobs."""
    for one in queue.devices:
        borrowed = f", {one.borrowed:,} borrowed" if one.borrowed else ""
        yield f"{one.fleet}: uses {one.used:,} {one.resource}{borrowed}; its quota is {one.quota:,}"
    yield f"{count(queue.running, 'job')} with devices, {queue.waiting:,} waiting"


def _capacity(key: str, status: Status) -> Iterator[Row]:
    lines = [capacity_words(one) for one in status.capacity if one.fleet == key]
    if lines:
        yield Row("capacity", lines)


def capacity_words(one: Capacity) -> str:
    """Reserved capacity with its clock."""
    words = [" ".join(filter(None, (one.kind, one.reservation_id)))]
    words += [one.state] if one.state else []
    if one.count is not None:
        words.append(f"{'unknown' if one.used is None else one.used} of {one.count} used")
    if one.starts_at:
        words.append(f"starts {one.starts_at}")
    if one.seconds_to_drain is not None:
        words.append(f"{_clock('drain', one.seconds_to_drain)} ({one.drain_at})")
    if one.seconds_to_end is not None:
        words.append(f"{_clock('end', one.seconds_to_end)} ({one.ends_at})")
    if one.planned_end:
        words.append(f"the cluster file has {one.planned_end} as its end")
    return ", ".join(words)


def _clock(what: str, seconds: int) -> str:
    if seconds < 0:
        return f"{what}{'ed' if what == 'end' else ' began'} {_duration(-seconds)} ago"
    return f"{what}s in {_duration(seconds)}"


def _duration(seconds: int) -> str:
    """A duration by its two largest units.

    Example:
        >>> _duration(3 * 3600 + 5 * 60 + 59), _duration(50 * 3600), _duration(59)
        ('3 h 5 min', '2 d 2 h', '0 min')
    """
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


# Alarms, cost, and what has no answer.


def _alarms(status: Status) -> Iterator[Row]:
    if status.alarms is None:
        yield Row("raised", ["unknown"])
    elif not status.alarms:
        yield Row("raised", [f"none of {status.alarm_count:,}" if status.alarm_count else "the stacks have none"])
    else:
        yield Row("raised", [alarm_words(one) for one in status.alarms])
    lines = [unread_words(one) for one in status.unread if one.call.endswith("DescribeAlarms")]
    if lines:
        yield Row(_CANNOT_TELL, lines)


def alarm_words(alarm: Alarm) -> str:
    """An alarm in one line."""
    since = f" since {alarm.since}" if alarm.since else ""
    return f"{alarm.about}: {alarm.what}{since}: {alarm.reason or 'CloudWatch gives no reason'}"


def _cost(status: Status) -> Iterator[Row]:
    more = " + unknown" if status.cost.is_partial else ""
    paid = sum(one.count for one in status.cost.running if one.is_paid_in_advance)
    more += f", beside {count(paid, 'instance')} paid in advance" if paid else ""
    if status.usd_per_day is None:
        yield Row("a day", [f"unknown{more.removeprefix(' + unknown')}"])
    else:
        low, high = status.usd_per_day.low, status.usd_per_day.high
        yield Row("a day", [f"{high:,} USD{more}" if low == high else f"{low:,} to {high:,} USD{more}"])
    if status.cost.cannot_tell:
        yield Row(_CANNOT_TELL, [f"{what}: {why}" for what, why in status.cost.cannot_tell.items()])


def _unread_of(key: str, status: Status) -> Iterator[Row]:
    lines = [unread_words(one) for one in status.unread if one.about == key]
    if lines:
        yield Row(_CANNOT_TELL, lines)


def unread_words(one: Unread) -> str:
    """A call without an answer."""
    cause = one.cause if one.permission or one.call in one.cause else f"{one.call}: {one.cause}"
    return cause + (f"; {one.fix}" if one.fix else "")
