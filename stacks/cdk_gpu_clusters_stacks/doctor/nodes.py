"""Facts of running nodes, which they report to their log group, against the settings in their launch template."""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from cdk_gpu_clusters.node.gpunode.facts import FACTS, INTERVAL_SECONDS
from cdk_gpu_clusters.node.gpunode.node import Settings, settings_of
from cdk_gpu_clusters.node.gpunode.quoting import one_line
from cdk_gpu_clusters_stacks.failures.answers import parsed
from cdk_gpu_clusters_stacks.failures.calls import GROUPS, LOG_EVENTS
from cdk_gpu_clusters_stacks.failures.reading import groups_of, milliseconds
from cdk_gpu_clusters_stacks.preflight.account import Account
from cdk_gpu_clusters_stacks.preflight.call import INSTANCES, Absent
from cdk_gpu_clusters_stacks.preflight.unread import Missed, Unread

from .compare import Difference
from .planned import Json, Resolver, Stack, Unknown

#: The type of a drift of nodes.
INSTANCE = "AWS::EC2::Instance"
#: What is missing without an answer.
READING = "facts of nodes"
#: Facts of this age are of now: a node reports once an hour, and may miss one.
WINDOW = timedelta(seconds=2 * INTERVAL_SECONDS + 600)
# CloudWatch Logs user guide, "Filter pattern syntax", JSON.
_PATTERN = f'{{ $.stage = "{FACTS}" }}'
#: Whoever may write to a log group could fill it: no more than this is read.
_EVENTS = replace(LOG_EVENTS, most=20_000)
_FIX = "run gpunode status --json on the node; nodes of an earlier version of this library report no facts"
_MOST_NAMES = 10
_LARGEST, _LONGEST = 1_000_000, 40
_SETTING = re.compile(r"^[ \t]*(GPU_[A-Z0-9_]+=.*)$", re.MULTILINE)
_PARTITION = re.compile(r'MIG_PARTITION=\\*"([0-9A-Za-z.+,;-]+)')
_PROFILE = re.compile(r"(?:\d+c\.)?\d+g\.\d+gb[+\w.-]*")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _is_layout(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= _LONGEST
        and all(_PROFILE.fullmatch(name) and len(name) <= _LONGEST and _is_count(value[name]) for name in value)
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and one_line(value) == value


def _release(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d{1,9}", text)]


def _is_enough(planned: Any, live: Any) -> bool:
    return bool(live >= planned)


def _is_same(planned: Any, live: Any) -> bool:
    return bool(live == planned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One fact.

    Attributes:
        name: Its name in what a node reports.
        property: Its name in a drift.
        planned: What the plan has; None for nothing.
        is_valid: Whether a node can report such a value.
        holds: Whether a value is as planned, given both.
        rank: Without a plan, nodes of one group are compared with the value that most of them have, and of several such
            values with the one that ranks highest; None if they are not compared.
    """

    name: str
    property: str
    planned: Callable[[NodePlan], Any]
    is_valid: Callable[[Any], bool]
    holds: Callable[[Any, Any], bool] = _is_same
    rank: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """What the user data of a launch template has of its nodes.

    Attributes:
        settings: Their settings.
        mig_devices: MIG devices by profile; None if the GPUs are not split, or a profile is a number.
    """

    settings: Settings
    mig_devices: Mapping[str, int] | None = None

    def number(self, name: str) -> int | None:
        """A setting that is a number; None if it is 0 or missing."""
        return self.settings.number(name) or None


FACTS_OF_NODES: tuple[Fact, ...] = (
    Fact(
        name="efa_devices",
        property="EfaDevices",
        planned=lambda plan: plan.number("efa_count"),
        is_valid=_is_count,
        holds=_is_enough,
    ),
    Fact(
        name="accelerators",
        property="Accelerators",
        planned=lambda plan: plan.number("accelerator_count"),
        is_valid=_is_count,
        holds=_is_enough,
    ),
    Fact(name="mig_devices", property="MigDevices", planned=lambda plan: plan.mig_devices, is_valid=_is_layout),
    Fact(
        name="lustre_over_efa",
        property="LustreOverEfa",
        planned=lambda plan: bool(plan.number("lustre_efa")) or None,
        is_valid=lambda value: isinstance(value, bool),
    ),
    Fact(
        name="huge_pages",
        property="HugePages",
        planned=lambda plan: plan.number("huge_pages"),
        is_valid=_is_count,
        holds=_is_enough,
        rank=lambda pages: pages,  # mostly those of the image's EFA software
    ),
    Fact(
        name="clock_synchronized",
        property="ClockSynchronized",
        planned=lambda _: True,
        is_valid=lambda value: isinstance(value, bool),
    ),
    Fact(name="driver", property="Driver", planned=lambda _: None, is_valid=_is_text, rank=_release),
)


def plan_of(user_data: str) -> NodePlan | None:
    """What user data, in base64, have of a node; None if they are not of this library."""
    try:
        text = base64.b64decode(user_data, validate=True).decode("utf-8", "replace")
    except (ValueError, binascii.Error):
        return None
    # A user's own part may come after ours.
    settings = settings_of("\n".join(reversed(_SETTING.findall(text))))
    return NodePlan(settings=settings, mig_devices=_mig_devices(settings, text)) if settings.text("fleet") else None


def _mig_devices(settings: Settings, text: str) -> dict[str, int] | None:
    """The MIG devices of `/etc/default/mig`: one layout for all GPUs, or one for each."""
    found = _PARTITION.search(text)
    if found is None or not settings.number("mig_count"):
        return None
    layouts = found[1].split(";")
    each = layouts * settings.number("accelerator_count") if len(layouts) == 1 else layouts
    profiles = [name for layout in each for name in layout.split(",") if name != "off"]
    return dict(Counter(profiles)) if all(map(_PROFILE.fullmatch, profiles)) else None


@dataclass(slots=True, kw_only=True)
class Nodes:
    """The nodes of one group.

    Attributes:
        stack: Its stack.
        logical_id: Its logical id.
        plan: What its launch template has of them.
        instances: Ids of those in service.
        facts: What they reported last, by id.
    """

    stack: Stack
    logical_id: str
    plan: NodePlan
    instances: list[str] = field(default_factory=list)
    facts: dict[str, Json] = field(default_factory=dict)


# Reading.


class NodeReader:
    """Reads nodes of groups and their facts."""

    def __init__(self, account: Account, missed: Missed, *, now: datetime) -> None:
        self._account, self._missed, self._now = account, missed, now

    def plan(self, stack: Stack, resolver: Resolver, launch_template: str) -> NodePlan | None:
        """The plan of the launch template with a physical id; None if it is unknown, or not of this library."""
        for logical_id, resource in stack.resources("AWS::EC2::LaunchTemplate"):
            if stack.physical_ids[logical_id] == launch_template:
                data = (resource.get("Properties") or {}).get("LaunchTemplateData") or {}
                try:
                    return plan_of(str(resolver.value(data.get("UserData", ""))))
                except Unknown:
                    return None  # listed with what cannot be compared
        return None

    def read(self, nodes: Nodes, kind: str, document: Json) -> None:
        """Read the nodes of a group, and their facts."""
        about = nodes.stack.about
        with self._missed.reading(INSTANCES if "PCS" in kind else GROUPS, about):
            nodes.instances = sorted(self._instances(kind, document, about))
        if not nodes.instances:
            return
        group = nodes.plan.settings.text("log_group")
        if not group:
            cause = "their launch template has no log group, so that facts stay on the nodes"
            self._missed.unread.append(Unread(call=READING, about=about, cause=cause, fix=_FIX))
            return
        asked = self._account.start(
            _EVENTS,
            logGroupName=group,
            filterPattern=_PATTERN,
            startTime=milliseconds(self._now - WINDOW),
            endTime=milliseconds(self._now),
        )
        # Without its log group, no node has reported anything.
        is_gone = isinstance(asked.exception(), Absent)
        answer = {"events": []} if is_gone else self._missed.take(_EVENTS, about, asked)
        if answer is None:
            return
        with self._missed.reading(_EVENTS, about):
            nodes.facts = facts_of(answer["events"], nodes.instances)
        self._miss_nodes(nodes)

    def _instances(self, kind: str, document: Json, about: str) -> Iterator[str]:
        if kind == "AWS::PCS::ComputeNodeGroup":
            # AWS PCS user guide, "Finding compute node group instances in AWS PCS".
            tag = {"Name": "tag:aws:pcs:compute-node-group-id", "Values": [document["id"]]}
            running = {"Name": "instance-state-name", "Values": ["running"]}
            asked = self._account.start(INSTANCES, Filters=[tag, running])
            answer = self._missed.take(INSTANCES, about, asked)
            rows = answer["Reservations"] if answer else ()
            yield from (one["InstanceId"] for row in rows for one in row["Instances"])
        elif kind == "AWS::EKS::Nodegroup":
            for name in groups_of({"nodegroup": document}):
                answer = self._missed.take(GROUPS, about, self._account.start(GROUPS, AutoScalingGroupNames=[name]))
                for group in answer["AutoScalingGroups"] if answer else ():
                    yield from _in_service(group)
        else:
            yield from _in_service(document)

    def _miss_nodes(self, nodes: Nodes) -> None:
        """Note nodes without facts, and facts that nodes leave out although the plan has them."""
        about, unread = nodes.stack.about, self._missed.unread
        if silent := [one for one in nodes.instances if one not in nodes.facts]:
            hours = INTERVAL_SECONDS * 2 // 3600
            cause = f"none in the last {hours} hours from {_names(silent)}"
            unread.append(Unread(call=READING, about=about, cause=cause, fix=_FIX))
        for fact in FACTS_OF_NODES:
            without = [one for one, found in nodes.facts.items() if fact.name not in found]
            if without and fact.planned(nodes.plan) is not None:
                cause = f"no {fact.property} from {_names(without)}"
                unread.append(Unread(call=READING, about=about, cause=cause, fix=_FIX))


def _in_service(group: Json) -> Iterator[str]:
    members = group.get("Instances") or ()
    yield from (one["InstanceId"] for one in members if one.get("LifecycleState") == "InService")


def _names(instances: Sequence[str]) -> str:
    more = len(instances) - _MOST_NAMES
    return ", ".join(sorted(instances)[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def facts_of(events: Sequence[Json], instances: Sequence[str]) -> dict[str, Json]:
    """The newest facts of each node; what no node of this library can report is left out.

    Args:
        events: Events of the log group, which others may write to.
        instances: Ids of the nodes.
    """
    found: dict[str, Json] = {}
    known_instances = frozenset(instances)
    for event in sorted(events, key=lambda one: int(one.get("timestamp") or 0)):
        record = parsed(str(event.get("message", "")))
        facts = record.get(FACTS) if isinstance(record, dict) and record.get("stage") == FACTS else None
        instance = record.get("instance_id") if isinstance(record, dict) else None
        if isinstance(facts, dict) and isinstance(instance, str) and instance in known_instances:
            known = ((one.name, facts.get(one.name), one.is_valid) for one in FACTS_OF_NODES)
            found[instance] = {name: value for name, value, is_valid in known if is_valid(value)}
    return found


# Comparing.


def node_differences(nodes: Nodes) -> Iterator[tuple[str, Difference]]:
    """Each fact that differs from the plan, once for all nodes with the same value: their ids, and the difference."""
    for fact in FACTS_OF_NODES:
        planned = fact.planned(nodes.plan)
        if planned is None and fact.rank is not None:
            planned = _usual([found[fact.name] for found in nodes.facts.values() if fact.name in found], fact.rank)
        if planned is not None:
            yield from _differences(nodes, fact, planned)


def _usual(values: Sequence[Any], rank: Callable[[Any], Any]) -> Any:
    """The value of most nodes; of several such values the one that ranks highest."""
    counted = Counter(values)
    return max(counted, key=lambda one: (counted[one], rank(one)), default=None)


def _differences(nodes: Nodes, fact: Fact, planned: Any) -> Iterator[tuple[str, Difference]]:
    by_value: dict[str, tuple[Any, list[str]]] = {}
    for instance, found in sorted(nodes.facts.items()):
        if fact.name in found and not fact.holds(planned, found[fact.name]):
            value = found[fact.name]
            key = str(sorted(value.items())) if isinstance(value, dict) else str(value)
            by_value.setdefault(key, (value, []))[1].append(instance)
    for value, instances in by_value.values():
        yield ", ".join(instances), Difference(path=(fact.property,), planned=planned, live=value)
