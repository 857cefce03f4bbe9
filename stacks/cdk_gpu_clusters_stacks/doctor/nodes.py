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

from cdk_gpu_clusters.node.gpunode.facts import FACTS, INTERVAL_SECONDS, SOFTWARE_DIGITS
from cdk_gpu_clusters.node.gpunode.node import Settings, settings_of
from cdk_gpu_clusters.node.gpunode.quoting import one_line
from cdk_gpu_clusters_stacks.failures.answers import parsed
from cdk_gpu_clusters_stacks.failures.calls import LOG_EVENTS
from cdk_gpu_clusters_stacks.failures.reading import groups_of, milliseconds
from cdk_gpu_clusters_stacks.preflight.account import Account
from cdk_gpu_clusters_stacks.preflight.call import INSTANCES, Absent
from cdk_gpu_clusters_stacks.preflight.unread import Missed, Unread
from cdk_gpu_clusters_stacks.stack_names import fleet_path

from .compare import Difference
from .planned import Json, Stack

#: The type of a drift of nodes.
INSTANCE = "AWS::EC2::Instance"
#: What is missing without an answer.
READING = "facts of nodes"
#: Facts of this age are of now: a node reports once an hour, and may miss one.
WINDOW = timedelta(seconds=2 * INTERVAL_SECONDS + 600)
# CloudWatch Logs user guide, "Filter pattern syntax", JSON.
_PATTERN = f'{{ $.stage = "{FACTS}" }}'
#: First part of the names of nodes' streams. Those of jobs, which hold what users print, begin otherwise.
_STREAMS = "i-"
#: Whoever may write to a log group could fill it: no more than this is read.
_EVENTS = replace(LOG_EVENTS, most=20_000)
_PCS, _EKS, _BATCH = "AWS::PCS::ComputeNodeGroup", "AWS::EKS::Nodegroup", "AWS::Batch::ComputeEnvironment"
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
    Fact(
        name="software",
        property="Software",
        planned=lambda plan: plan.settings.text("software_sha256")[:SOFTWARE_DIGITS] or None,
        is_valid=_is_text,
    ),
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
        other_versions: Numbers of versions of the launch template whose settings are not those of the plan.
        streams: Log stream of each node in service, by id.
        facts: What they reported last, by id.
    """

    stack: Stack
    logical_id: str
    plan: NodePlan
    other_versions: frozenset[str] = frozenset()
    streams: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Json] = field(default_factory=dict)


# Reading.


class NodeReader:
    """Reads nodes of groups and their facts."""

    def __init__(self, account: Account, missed: Missed, *, now: datetime) -> None:
        self._account, self._missed, self._now = account, missed, now

    def read(self, nodes: Nodes, kind: str, document: Json) -> None:
        """Read the nodes of a group, and their facts."""
        about = nodes.stack.about
        with self._missed.reading(INSTANCES, about):
            nodes.streams = self._streams(nodes, kind, document)
        if not nodes.streams:
            return
        group = nodes.plan.settings.text("log_group")
        if not group:
            self._miss(about, "their launch template has no log group, so that facts stay on the nodes")
            return
        asked = self._account.start(
            _EVENTS,
            logGroupName=group,
            logStreamNamePrefix=_STREAMS,
            filterPattern=_PATTERN,
            startTime=milliseconds(self._now - WINDOW),
            endTime=milliseconds(self._now),
        )
        # Without its log group, no node has reported anything.
        is_gone = isinstance(asked.exception(), Absent)
        answer = {"events": []} if is_gone else self._missed.take(_EVENTS, about, asked)
        if answer is None:
            return
        if answer.get("NextToken"):  # the newest events are missing, of whatever node
            self._miss(about, f"log group {group} has more than {_EVENTS.most:,} of them in {_hours()} hours", fix="")
            return
        with self._missed.reading(_EVENTS, about):
            nodes.facts = facts_of(answer["events"], nodes.streams)
        self._miss_nodes(nodes)

    def _streams(self, nodes: Nodes, kind: str, document: Json) -> dict[str, str]:
        """The stream of each node: its id, and its address, which the node's role cannot choose."""
        if kind == _PCS:
            # AWS PCS user guide, "Finding compute node group instances in AWS PCS".
            key, values = "aws:pcs:compute-node-group-id", [document["id"]]
        elif kind == _EKS:
            key, values = "aws:autoscaling:groupName", groups_of({"nodegroup": document})
        elif kind == _BATCH:  # its nodes have the tags of their launch template
            key, values = "Name", [fleet_path(nodes.stack.name, "fleet", group_type=kind)]
        else:
            key, values = "aws:autoscaling:groupName", [document["AutoScalingGroupName"]]
        in_service = self._in_service(nodes, document) if kind not in (_PCS, _EKS, _BATCH) else None
        if not values or in_service == []:
            return {}
        filters = [{"Name": f"tag:{key}", "Values": values}, {"Name": "instance-state-name", "Values": ["running"]}]
        answer = self._missed.take(INSTANCES, nodes.stack.about, self._account.start(INSTANCES, Filters=filters))
        rows = [one for row in (answer["Reservations"] if answer else ()) for one in row["Instances"]]
        found = {one["InstanceId"]: f"{one['InstanceId']}/{one.get('PrivateIpAddress', '')}" for one in rows}
        return {one: found[one] for one in sorted(found) if in_service is None or one in in_service}

    def _in_service(self, nodes: Nodes, group: Json) -> list[str]:
        """Instances in service, without those that started with other settings than the plan has."""
        members = [one for one in group.get("Instances") or () if one.get("LifecycleState") == "InService"]
        versions = {one["InstanceId"]: str((one.get("LaunchTemplate") or {}).get("Version", "")) for one in members}
        others = [one for one, version in versions.items() if version in nodes.other_versions]
        if others:
            cause = f"{_names(others)} started from a version of the launch template with other settings"
            self._miss(nodes.stack.about, cause, fix="replace the nodes when they are idle")
        return [one for one in versions if one not in others]

    def _miss_nodes(self, nodes: Nodes) -> None:
        """Note nodes without facts, and facts that nodes leave out although the plan has them."""
        about = nodes.stack.about
        if silent := [one for one in nodes.streams if one not in nodes.facts]:
            self._miss(about, f"none in the last {_hours()} hours from {_names(silent)}")
        for fact in FACTS_OF_NODES:
            without = [one for one, found in nodes.facts.items() if fact.name not in found]
            if without and fact.planned(nodes.plan) is not None:
                self._miss(about, f"no {fact.property} from {_names(without)}")

    def _miss(self, about: str, cause: str, *, fix: str = _FIX) -> None:
        self._missed.unread.append(Unread(call=READING, about=about, cause=cause, fix=fix))


def _hours() -> int:
    return int(WINDOW.total_seconds() // 3600)


def _names(instances: Sequence[str]) -> str:
    more = len(instances) - _MOST_NAMES
    return ", ".join(sorted(instances)[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def facts_of(events: Sequence[Json], streams: Mapping[str, str]) -> dict[str, Json]:
    """The newest facts of each node; what no node of this library can report is left out.

    Args:
        events: Events of the log group.
        streams: The stream of each node. What other streams hold about it is ignored: another node, or a job, wrote it.
    """
    found: dict[str, Json] = {}
    nodes = {stream: instance for instance, stream in streams.items()}
    for event in sorted(events, key=lambda one: int(one.get("timestamp") or 0)):
        record = parsed(str(event.get("message", "")))
        facts = record.get(FACTS) if isinstance(record, dict) and record.get("stage") == FACTS else None
        instance = nodes.get(str(event.get("logStreamName", "")))
        if isinstance(facts, dict) and instance is not None:
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
