"""What is read for `explain`: answers of an account, read-only, or a file with answers that were saved before."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cdk_gpu_clusters_stacks.preflight.account import Account, Answer
from cdk_gpu_clusters_stacks.preflight.call import CALLER, FILE_SYSTEMS, PCS_CLUSTER, Call
from cdk_gpu_clusters_stacks.preflight.check import policy_of
from cdk_gpu_clusters_stacks.preflight.cluster import Cluster
from cdk_gpu_clusters_stacks.preflight.run import caller_of
from cdk_gpu_clusters_stacks.preflight.unread import Missed, Unread
from cdk_gpu_clusters_stacks.spec import ClusterSpec

from . import calls
from .answers import Message, NothingKnown, messages_of, messages_of_text, parsed, require_known, time_of

_CALLS = (
    CALLER,
    calls.STACK_EVENTS,
    calls.STACK_RESOURCES,
    calls.ACTIVITIES,
    calls.GROUPS,
    calls.FLEETS,
    calls.FLEET_HISTORY,
    calls.TRAIL,
    calls.DECODED,
    FILE_SYSTEMS,
    calls.LOG_EVENTS,
)
_EKS_CALLS, _PCS_CALLS = (calls.EKS_NODE_GROUP,), (PCS_CLUSTER, calls.PCS_NODE_GROUP)
#: CloudTrail's names of the calls that start instances.
_LAUNCHES = ("RunInstances", "CreateFleet")
#: Failed boots among the events of nodes (CloudWatch Logs user guide, "Filter pattern syntax", JSON).
FAILED_BOOTS = '{ ($.state = "failed") && (($.stage = "node") || ($.stage = "software")) }'
#: EC2 API reference, "Common client error codes", UnauthorizedOperation: sts:DecodeAuthorizationMessage reads it.
ENCODED = re.compile(r"Encoded authorization failure message: (?P<code>[\w-]+)")


def policy_to_explain(spec: ClusterSpec) -> dict[str, Any]:
    """The smallest IAM policy with which everything about a cluster file is read. All actions only read."""
    cluster = Cluster.of(spec)
    more = (*(_EKS_CALLS if cluster.plan.kubernetes else ()), *(_PCS_CALLS if cluster.plan.slurm else ()))
    return policy_of((*_CALLS, *more), "GpuClustersExplain")


@dataclass(slots=True, kw_only=True)
class Reading:
    """What was read.

    Attributes:
        cluster: Name of the cluster; empty for a file that is not of this command.
        region: Its Region.
        account: The account that was asked.
        since: How far back; None for a file that is not of this command.
        answers: Answers as plain JSON, each with `call` and `about`.
        decoded: Encoded message of a denial -> what STS answers, as JSON.
        unread: What could not be read.
        absent: Stacks that are not deployed.
        text: A plain text in place of answers.
    """

    cluster: str = ""
    region: str = ""
    account: str = ""
    since: datetime | None = None
    answers: list[dict[str, Any]] = field(default_factory=list)
    decoded: dict[str, Any] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    text: str = ""

    def messages(self) -> Iterator[tuple[str, Message]]:
        """Every failure since then, beside what it is about."""
        for one in self.answers:
            for message in messages_of(one.get("answer")):
                if self.since is None or message.when is None or message.when >= self.since:
                    yield str(one.get("about", "")), message
        yield from (("", message) for message in messages_of_text(self.text))

    def as_json(self) -> dict[str, Any]:
        """All of it, for a file that `read_saved` reads."""
        return {
            "cluster": self.cluster,
            "region": self.region,
            "account": self.account,
            "since": self.since and self.since.isoformat(),
            "answers": self.answers,
            "decoded": self.decoded,
            "unread": [asdict(one) for one in self.unread],
            "absent": self.absent,
        }


# A file.


def read_saved(text: str) -> Reading:
    """Read what `--save` wrote, what the AWS CLI printed, records of nodes, or a plain text.

    Raises:
        NothingKnown: If it is JSON that has none of it, or empty.
    """
    content = parsed(text)
    if not isinstance(content, dict | list):
        if not text.strip():
            raise NothingKnown("it is empty")
        return Reading(text=text)
    if not isinstance(content, dict) or "answers" not in content:
        require_known(content)
        return Reading(answers=[{"call": "", "about": "", "answer": content}])
    return Reading(
        cluster=str(content.get("cluster", "")),
        region=str(content.get("region", "")),
        account=str(content.get("account", "")),
        since=time_of(content.get("since")),
        answers=_dicts(content["answers"]),
        decoded=content["decoded"] if isinstance(content.get("decoded"), dict) else {},
        unread=[_unread_of(one) for one in _dicts(content.get("unread"))],
        absent=[str(one) for one in content["absent"]] if isinstance(content.get("absent"), list) else [],
    )


def _dicts(rows: object) -> list[dict[str, Any]]:
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _unread_of(row: Mapping[str, Any]) -> Unread:
    return Unread(**{name: str(row.get(name, "")) for name in Unread.__slots__})


# An account.


def read_account(spec: ClusterSpec, account: Account, *, now: datetime, hours: float) -> Reading:
    """Read what an account has about the nodes of a cluster file; nothing is changed there.

    Args:
        spec: The cluster file.
        account: The account.
        now: The time.
        hours: How far back to read.

    Raises:
        Unusable: If the credentials cannot be used.
    """
    cluster = Cluster.of(spec)
    account_id, _ = caller_of(account)
    since = now - timedelta(hours=hours)
    reading = Reading(cluster=spec.name, region=spec.region, account=account_id, since=since)
    reader = _Reader(account, cluster, reading, since=since, until=now)
    reader.read_stacks()
    reader.read_launches()
    reader.read_fleets()
    reader.decode()
    return reading


class _Reader:
    """Asks, and keeps answers and what has none."""

    def __init__(
        self, account: Account, cluster: Cluster, reading: Reading, *, since: datetime, until: datetime
    ) -> None:
        self._account, self._cluster, self._reading = account, cluster, reading
        self._missed = Missed(unread=reading.unread, absent=reading.absent)
        self._since, self._until = since, until
        #: Names and ids by which an event of the account is one of this cluster.
        self._names = {cluster.spec.name}

    def read_stacks(self) -> None:
        """The events of each stack, and the failures of its groups, logs and file systems."""
        about = {stack.name: self._cluster.about(stack.kind, stack.of) for stack in self._cluster.plan.stacks}
        with_nodes = {stack.name for stack in self._cluster.plan.stacks if stack.kind in _WITH_NODES}
        asked = [
            (name, call, self._account.start(call, StackName=name))
            for name in about
            for call in (calls.STACK_EVENTS, calls.STACK_RESOURCES)
        ]
        waiting: list[tuple[str, Call, Future[Answer]]] = []
        for name, call, future in asked:
            answer = self._missed.take(call, about[name], future, absent=name)
            if answer is not None and call is calls.STACK_RESOURCES:
                waiting += [(about[name], *step) for step in self._start(answer, has_nodes=name in with_nodes)]
            elif answer is not None:
                self._keep(call, about[name], answer)
        for where, call, future in waiting:
            answer = self._missed.take(call, where, future)
            if answer is not None:
                self._keep(call, where, answer)
                self._read_groups(where, groups_of(answer))

    def _start(self, resources: Answer, *, has_nodes: bool) -> Iterator[tuple[Call, Future[Answer]]]:
        for resource in resources.get("StackResourceSummaries", ()):
            kind, name = resource.get("ResourceType", ""), resource.get("PhysicalResourceId", "")
            if not name:
                continue
            if kind in ("AWS::AutoScaling::AutoScalingGroup", "AWS::EC2::LaunchTemplate", "AWS::EKS::Nodegroup"):
                self._names.add(name)
            start = self._account.start
            if kind == "AWS::AutoScaling::AutoScalingGroup":
                yield calls.GROUPS, start(calls.GROUPS, AutoScalingGroupNames=[name])
                yield calls.ACTIVITIES, start(calls.ACTIVITIES, AutoScalingGroupName=name, IncludeDeletedGroups=True)
            elif kind == "AWS::EKS::Nodegroup" and (parts := re.split("[/|]", name))[1:]:
                yield calls.EKS_NODE_GROUP, start(calls.EKS_NODE_GROUP, clusterName=parts[0], nodegroupName=parts[1])
            elif kind == "AWS::PCS::Cluster":
                yield PCS_CLUSTER, start(PCS_CLUSTER, clusterIdentifier=name.rsplit("/", 1)[-1])
            elif kind == "AWS::PCS::ComputeNodeGroup" and (found := PCS_GROUP.search(name)):
                self._names.add(found["computeNodeGroupIdentifier"])
                yield calls.PCS_NODE_GROUP, start(calls.PCS_NODE_GROUP, **found.groupdict())
            elif kind == "AWS::FSx::FileSystem":
                yield FILE_SYSTEMS, start(FILE_SYSTEMS, FileSystemIds=[name])
            elif kind == "AWS::Logs::LogGroup" and has_nodes and not name.startswith(NOT_OF_NODES):
                yield calls.LOG_EVENTS, self._start_logs(name)

    def _start_logs(self, group: str) -> Future[Answer]:
        return self._account.start(
            calls.LOG_EVENTS,
            logGroupName=group,
            filterPattern=FAILED_BOOTS,
            startTime=milliseconds(self._since),
            endTime=milliseconds(self._until),
        )

    def _read_groups(self, about: str, names: Iterable[str]) -> None:
        """The activities of the groups that EKS made for a node group."""
        for name in names:
            self._names.add(name)
            self._ask(calls.GROUPS, about, AutoScalingGroupNames=[name])
            self._ask(calls.ACTIVITIES, about, AutoScalingGroupName=name, IncludeDeletedGroups=True)

    def read_launches(self) -> None:
        """Failed calls that start instances, as far as they name something of the cluster."""
        for name in _LAUNCHES:
            future = self._account.start(
                calls.TRAIL,
                LookupAttributes=[{"AttributeKey": "EventName", "AttributeValue": name}],
                StartTime=self._since,
                EndTime=self._until,
            )
            answer = self._missed.take(calls.TRAIL, "", future)
            if answer is not None:
                events = [_without_secrets(one) for one in answer.get("Events", ()) if self._is_failure_here(one)]
                self._keep(calls.TRAIL, "", {**answer, "Events": events})

    def _is_failure_here(self, event: Mapping[str, Any]) -> bool:
        text = str(event.get("CloudTrailEvent", ""))
        return '"errorCode"' in text and any(f'"{name}"' in text for name in self._names)

    def read_fleets(self) -> None:
        """The history of EC2 Fleets with the cluster's tag."""
        answer = self._missed.take(calls.FLEETS, "", self._account.start(calls.FLEETS))
        if answer is None:
            return
        own = [fleet for fleet in answer.get("Fleets", ()) if self._cluster.owns(fleet)]
        self._keep(calls.FLEETS, "", {"Fleets": own})
        for fleet in own:
            self._ask(calls.FLEET_HISTORY, "", FleetId=fleet.get("FleetId", ""), StartTime=self._since)

    def decode(self) -> None:
        """What STS answers about denials whose message is encoded."""
        texts = [message.text for _, message in self._reading.messages()]
        for code in dict.fromkeys(found["code"] for text in texts for found in ENCODED.finditer(text)):
            answer = self._missed.take(calls.DECODED, "", self._account.start(calls.DECODED, EncodedMessage=code))
            if answer is not None:
                self._reading.decoded[code] = parsed(str(answer.get("DecodedMessage", "")))

    def _ask(self, call: Call, about: str, **parameters: Any) -> None:
        answer = self._missed.take(call, about, self._account.start(call, **parameters))
        if answer is not None:
            self._keep(call, about, answer)

    def _keep(self, call: Call, about: str, answer: Mapping[str, Any]) -> None:
        if call.most is not None and answer.get("NextToken"):
            cause = f"only {call.most} items were read, and there are more"
            self._reading.unread.append(Unread(call=call.name, about=about, cause=cause, fix="give fewer --hours"))
        plain = json.loads(json.dumps(answer, default=str))
        for event in plain.get("StackEvents", ()):
            event.pop("ResourceProperties", None)
        self._reading.answers.append({"call": call.name, "about": about, "answer": plain})


#: How names of log groups of AWS's own services begin. Nodes do not write there, and a week of them takes long to read.
NOT_OF_NODES = ("/aws/vendedlogs/", "/aws/eks/", "/aws/fsx/", "/aws/containerinsights/")
#: Kinds of stacks whose log groups nodes write to.
_WITH_NODES = ("fleet", "inference", "login")
#: ARN of a node group of AWS PCS (service authorization reference, AWS PCS).
PCS_GROUP = re.compile(r"cluster/(?P<clusterIdentifier>[^/]+)/computenodegroup/(?P<computeNodeGroupIdentifier>[^/]+)$")


def groups_of(answer: Answer) -> list[str]:
    """The Auto Scaling groups that EKS made for a node group."""
    resources = (answer.get("nodegroup") or {}).get("resources") or {}
    return [one["name"] for one in resources.get("autoScalingGroups", ()) if one.get("name")]


def _without_secrets(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event of CloudTrail with its errors, and without access keys and parameters of the call."""
    inner = parsed(str(event.get("CloudTrailEvent", "")))
    kept = ("errorCode", "errorMessage", "responseElements")
    errors = {name: inner[name] for name in kept if name in inner} if isinstance(inner, dict) else {}
    named = {name: event[name] for name in ("EventName", "EventTime", "Username") if name in event}
    return {**named, "CloudTrailEvent": json.dumps(errors)}


def milliseconds(moment: datetime) -> int:
    """A time as CloudWatch Logs takes it."""
    return int(moment.timestamp() * 1000)
