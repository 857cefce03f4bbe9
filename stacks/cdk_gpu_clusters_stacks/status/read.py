"""Read the state of a cluster's stacks from an account. All calls only read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.fleet_jobs.board import JOBS, read_board
from cdk_gpu_clusters.node.gpunode.metrics.names import FLEET, INSTANCE, NAMESPACE, NODE_SEVERITY
from cdk_gpu_clusters.rules.capacity import RESERVATION, RESERVATION_IN_GROUP, CapacityWindow
from cdk_gpu_clusters_stacks.cost import read_account
from cdk_gpu_clusters_stacks.cost.money import HOURS_PER_DAY, Usd
from cdk_gpu_clusters_stacks.failures.answers import messages_of
from cdk_gpu_clusters_stacks.failures.calls import (
    EKS_NODE_GROUP,
    GROUPS,
    LOG_EVENTS,
    PCS_NODE_GROUP,
    STACK_RESOURCES,
)
from cdk_gpu_clusters_stacks.failures.reading import FAILED_BOOTS, NOT_OF_NODES, PCS_GROUP, groups_of, milliseconds
from cdk_gpu_clusters_stacks.failures.table import Place
from cdk_gpu_clusters_stacks.jobs.client import jobs_of, state_of
from cdk_gpu_clusters_stacks.jobs.fleet import read_fleets
from cdk_gpu_clusters_stacks.plan.model import ClusterPlan
from cdk_gpu_clusters_stacks.preflight.account import Account, Answer
from cdk_gpu_clusters_stacks.preflight.call import CALLER, INSTANCES, RESERVATIONS, Call, define_call
from cdk_gpu_clusters_stacks.preflight.check import policy_of
from cdk_gpu_clusters_stacks.preflight.cluster import Cluster
from cdk_gpu_clusters_stacks.preflight.run import caller_of
from cdk_gpu_clusters_stacks.preflight.unread import Missed, Unread
from cdk_gpu_clusters_stacks.spec import ClusterSpec
from cdk_gpu_clusters_stacks.spec.capacity import utc_text
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import fleet_path

from .model import Alarm, Capacity, Fleet, Job, Node, NodeState, Status

ALARMS = define_call("cloudwatch", "describe_alarms")
METRIC_DATA = define_call("cloudwatch", "get_metric_data")
JOB_HISTORY = define_call("ssm", "get_parameter_history")
JOB_STREAMS = define_call("logs", "describe_log_streams")
_CALLS = (CALLER, STACK_RESOURCES, GROUPS, INSTANCES, RESERVATIONS, LOG_EVENTS, ALARMS, METRIC_DATA)
# CloudWatch API reference: DescribeAlarms takes 100 names, GetMetricData 500 queries.
_MOST_NAMES, _MOST_QUERIES = 100, 500
#: Nodes send their severity each minute; what is older than this says nothing about now.
_SEVERITY_AGE = timedelta(minutes=10)
_FAILED_BOOT_AGE = timedelta(hours=1)
_GROUP, _EKS, _PCS = "AWS::AutoScaling::AutoScalingGroup", "AWS::EKS::Nodegroup", "AWS::PCS::ComputeNodeGroup"
_ALARM_TYPES = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
_SLURM_JOBS = "Slurm has them: squeue on a login node"
_BATCH_JOBS = "AWS Batch has them, with their nodes: aws batch list-jobs --job-queue, with the output JobQueueArn"
_KUBERNETES_JOBS = "Kubernetes has them: kubectl get pods --all-namespaces"


def policy_for_status(spec: ClusterSpec) -> dict[str, Any]:
    """The smallest IAM policy with which `read_status` reads everything. All actions only read."""
    plan = Cluster.of(spec).plan
    more: tuple[Call, ...] = (JOB_HISTORY, JOB_STREAMS)
    if plan.kubernetes or plan.slurm:
        more = (*((EKS_NODE_GROUP,) if plan.kubernetes else ()), *((PCS_NODE_GROUP,) if plan.slurm else ()))
    return policy_of((*_CALLS, *more), "GpuClustersStatus")


def read_status(spec: ClusterSpec, account: Account, *, now: datetime) -> Status:
    """Read the state of a cluster; nothing is changed.

    Args:
        spec: The cluster file.
        account: The account. It keeps its answers: take a new one for a newer state.
        now: The time.

    Raises:
        Unusable: If the credentials cannot be used.
    """
    cluster = Cluster.of(spec)
    account_id, _ = caller_of(account)
    missed = Missed()
    reader = _Reader(cluster, account, missed, now)
    resources = reader.stacks()
    raised = reader.alarms(resources)
    groups = reader.groups(resources)
    boots, severities = reader.failed_boots(resources, groups), reader.severities(groups)
    for group in groups:
        group.fleet.nodes = group.nodes(severities, boots.get(group.stack, {}))
        group.fleet.problems += _gone(boots.get(group.stack, {}), group)
    cost = read_account(spec, account, now=now, bill=False)
    return Status(
        cluster=spec.name,
        region=spec.region,
        account=account_id,
        at=utc_text(now),
        fleets=[group.fleet for group in groups],
        capacity=reader.capacity(resources),
        alarms=raised.alarms,
        alarm_count=raised.count,
        jobs_elsewhere=_jobs_elsewhere(cluster.plan),
        cost=cost,
        usd_per_day=cost.per_hour and Usd(cost.per_hour.low * HOURS_PER_DAY, cost.per_hour.high * HOURS_PER_DAY),
        unread=missed.unread,
        absent=missed.absent,
    )


def _jobs_elsewhere(plan: ClusterPlan) -> str:
    """Where the jobs of an orchestrator are; nothing for those of plain EC2, which are read here."""
    if any(fleet.compute_environment for fleet in plan.fleets):
        return _BATCH_JOBS
    if plan.slurm or (plan.hyperpod and plan.hyperpod.runs == "slurm"):
        return _SLURM_JOBS
    return _KUBERNETES_JOBS if plan.kubernetes else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resource:
    """A resource of a stack, and the key of the cluster file that the stack is made for."""

    about: str
    stack: str
    type: str
    logical_id: str
    physical_id: str


@dataclass(slots=True, kw_only=True)
class _Raised:
    """The alarms of all stacks."""

    alarms: list[Alarm] | None = field(default_factory=list)
    count: int = 0


@dataclass(slots=True, kw_only=True)
class _Group:
    """A group of nodes while it is read.

    Attributes:
        fleet: What is known of it.
        stack: Its stack.
        announces: Whether its nodes come into service only when their boot has ended.
        instances: Instance, its state in words of AWS, and whether it is healthy; None if they are unknown.
        path: Name of the fleet in the metrics of its nodes.
    """

    fleet: Fleet
    stack: str
    announces: bool
    path: str
    instances: list[tuple[str, str, bool]] | None = None

    def nodes(self, severities: Mapping[str, Severity], boots: Mapping[str, str]) -> list[Node] | None:
        """Its nodes; None if they are unknown."""
        if self.instances is None:
            return None
        return [
            _node(one, severities.get(one[0]), boots.get(one[0], ""), announces=self.announces)
            for one in sorted(self.instances)
        ]


_LEAVING = ("Terminating", "Terminated", "Detaching", "shutting-down", "stopping", "stopped")


def _node(one: tuple[str, str, bool], severity: Severity | None, boot: str, *, announces: bool) -> Node:
    """A node, by the states of EC2 and EC2 Auto Scaling (their user guides, "Instance lifecycle")."""
    name, lifecycle, is_healthy = one
    # The watchdog of a node begins when its boot has ended.
    is_ready = lifecycle == "InService" if announces else severity is not None
    reason = ""
    if lifecycle.startswith(_LEAVING):
        state = NodeState.LEAVING
    elif lifecycle.startswith(("Standby", "EnteringStandby", "Warmed")):
        state = NodeState.STANDBY
    elif not is_healthy:
        state, reason = NodeState.FAILING, "the health check of its group fails"
    elif severity is not None and severity >= Severity.RESET:
        state, reason = NodeState.FAILING, f"its watchdog asks for: {severity.name.lower()}"
    elif boot and not is_ready:
        state, reason = NodeState.FAILING, f"its boot failed: {boot}"
    elif is_ready:
        state = NodeState.IN_SERVICE
    else:
        state = NodeState.BOOTING if lifecycle.lower().startswith("pending") else NodeState.RUNNING
    return Node(instance_id=name, state=state, lifecycle=lifecycle, severity=severity, reason=reason)


def _gone(boots: Mapping[str, str], group: _Group) -> Iterator[str]:
    """Failed boots of nodes that have ended since, by cause."""
    here = {name for name, _, _ in group.instances or ()}
    causes = Counter(reason for name, reason in boots.items() if name not in here)
    for reason, number in causes.items():
        boots_failed = "1 boot failed" if number == 1 else f"{number} boots failed"
        yield f"{boots_failed} in the last hour: {reason}"


class _Reader:
    """Asks, and keeps what has no answer."""

    def __init__(self, cluster: Cluster, account: Account, missed: Missed, now: datetime) -> None:
        self._cluster, self._account, self._missed, self._now = cluster, account, missed, now

    def _ask(self, call: Call, about: str, **parameters: Any) -> Answer | None:
        return self._missed.take(call, about, self._account.start(call, **parameters))

    # Stacks and alarms.

    def stacks(self) -> list[_Resource]:
        """The resources of all stacks."""
        start = self._account.start
        asked = [(stack, start(STACK_RESOURCES, StackName=stack.name)) for stack in self._cluster.plan.stacks]
        found: list[_Resource] = []
        for stack, future in asked:
            about = self._cluster.about(stack.kind, stack.of)
            answer = self._missed.take(STACK_RESOURCES, about, future, absent=stack.name) or {}
            with self._missed.reading(STACK_RESOURCES, about):
                found += [
                    _Resource(
                        about=about,
                        stack=stack.name,
                        type=one["ResourceType"],
                        logical_id=one["LogicalResourceId"],
                        physical_id=one["PhysicalResourceId"],
                    )
                    for one in answer.get("StackResourceSummaries", ())
                    if one.get("PhysicalResourceId") and not one.get("ResourceStatus", "").startswith("DELETE_")
                ]
        return found

    def alarms(self, resources: Sequence[_Resource]) -> _Raised:
        """The alarms of the stacks; none of them is known if any answer is missing."""
        owners = {one.physical_id: one for one in resources if one.type in _ALARM_TYPES}
        found, names = _Raised(count=len(owners)), sorted(owners)
        types = ["MetricAlarm", "CompositeAlarm"]
        parts = [names[index : index + _MOST_NAMES] for index in range(0, len(names), _MOST_NAMES)]
        futures = [self._account.start(ALARMS, AlarmNames=part, AlarmTypes=types) for part in parts]
        for future in futures:
            answer = self._missed.take(ALARMS, "", future)
            if answer is None:
                found.alarms = None
                continue
            for one in (*answer.get("MetricAlarms", ()), *answer.get("CompositeAlarms", ())):
                with self._missed.reading(ALARMS, ""):
                    self._add_alarm(found, one, owners[one["AlarmName"]])
        return found

    def _add_alarm(self, found: _Raised, one: Mapping[str, Any], owner: _Resource) -> None:
        if one["StateValue"] == "ALARM" and found.alarms is not None:
            since = one.get("StateTransitionedTimestamp") or one.get("StateUpdatedTimestamp")
            alarm = Alarm(
                name=one["AlarmName"],
                about=owner.about,
                what=owner.logical_id,
                since=utc_text(since) if since else "",
                reason=one.get("StateReason", ""),
            )
            found.alarms.append(alarm)

    # Groups of nodes and their jobs.

    def groups(self, resources: Sequence[_Resource]) -> list[_Group]:
        """The groups of nodes, in the order of the stacks; a further one of a stack has its logical id in its name."""
        readers = {_GROUP: self._auto_scaling, _EKS: self._eks, _PCS: self._pcs}
        kinds = {stack.name: stack.kind for stack in self._cluster.plan.stacks}
        found: list[_Group] = []
        for one in resources:
            if one.type in readers:
                is_first = all(group.fleet.name != one.about for group in found)
                name = one.about if is_first else f"{one.about}, {one.logical_id}"
                fleet = Fleet(name=name, group=one.physical_id)
                path = fleet_path(one.stack, kinds[one.stack], in_auto_scaling_group=one.type == _GROUP)
                found.append(_Group(fleet=fleet, stack=one.stack, announces=one.type == _GROUP, path=path))
                readers[one.type](found[-1])
        return found

    def _auto_scaling(self, group: _Group) -> None:
        about = group.fleet.name
        answer = self._ask(GROUPS, about, AutoScalingGroupNames=[group.fleet.group])
        with self._missed.reading(GROUPS, about):
            if answer is None:
                return
            found = answer["AutoScalingGroups"]
            if not found:
                group.fleet.problems.append(f"the Auto Scaling group {group.fleet.group} does not exist")
                return
            self._add_sizes(group, found[0]["DesiredCapacity"], found[0]["DesiredCapacity"])
            self._add_members(group, answer)
            self._add_jobs(group, answer)

    def _add_sizes(self, group: _Group, least: int, most: int) -> None:
        group.fleet.least, group.fleet.most = least, most

    def _add_members(self, group: _Group, answer: Answer) -> None:
        """Instances and problems of Auto Scaling groups."""
        group.instances = [
            (one["InstanceId"], one["LifecycleState"], one.get("HealthStatus") != "Unhealthy")
            for found in answer["AutoScalingGroups"]
            for one in found.get("Instances", ())
        ]
        group.fleet.problems += [one.text for one in messages_of(answer)]

    def _eks(self, group: _Group) -> None:
        about, (cluster, name) = group.fleet.name, re.split("[/|]", group.fleet.group)[:2]
        answer = self._ask(EKS_NODE_GROUP, about, clusterName=cluster, nodegroupName=name)
        with self._missed.reading(EKS_NODE_GROUP, about):
            if answer is None:
                return
            size = answer["nodegroup"]["scalingConfig"]["desiredSize"]
            self._add_sizes(group, size, size)
            group.fleet.problems += [one.text for one in messages_of(answer)]
            groups = groups_of(answer)
            members = self._ask(GROUPS, about, AutoScalingGroupNames=groups) if groups else None
            if members is not None:
                self._add_members(group, members)

    def _pcs(self, group: _Group) -> None:
        about, named = group.fleet.name, PCS_GROUP.search(group.fleet.group)
        if named is None:
            return
        identifier = named["computeNodeGroupIdentifier"]
        tag = {"Name": "tag:aws:pcs:compute-node-group-id", "Values": [identifier]}
        asked = self._account.start(INSTANCES, Filters=[tag])
        answer = self._ask(PCS_NODE_GROUP, about, **named.groupdict())
        with self._missed.reading(PCS_NODE_GROUP, about):
            if answer is not None:
                sizes = answer["computeNodeGroup"]["scalingConfiguration"]
                self._add_sizes(group, sizes["minInstanceCount"], sizes["maxInstanceCount"])
                group.fleet.problems += [one.text for one in messages_of(answer)]
        instances = self._missed.take(INSTANCES, about, asked)
        with self._missed.reading(INSTANCES, about):
            if instances is not None:
                found = [one for part in instances["Reservations"] for one in part.get("Instances", ())]
                states = [(one["InstanceId"], one["State"]["Name"], True) for one in found]
                group.instances = [one for one in states if one[1] != "terminated"]

    def _add_jobs(self, group: _Group, answer: Answer) -> None:
        """The newest job if it has not ended: a fleet takes one at a time."""
        for fleet in read_fleets(answer["AutoScalingGroups"]):
            about = group.fleet.name
            history = self._ask(JOB_HISTORY, about, Name=fleet.parameter)
            if history is None:
                continue
            past = jobs_of(sorted(history["Parameters"], key=lambda one: one["Version"]))[:1]
            found: list[Job] = []
            for one in past:
                job = one.request.job_id
                prefix = f"{JOBS}/{job}/"
                streams = self._ask(JOB_STREAMS, about, logGroupName=fleet.log_group, logStreamNamePrefix=prefix)
                if streams is None:
                    return
                board = read_board(
                    job, {one["logStreamName"]: float(one.get("creationTime", 0)) for one in streams["logStreams"]}
                )
                if not board.result:
                    found.append(
                        Job(
                            job_id=job,
                            state=state_of(board, one),
                            nodes=one.request.nodes,
                            requested_at=utc_text(one.requested_at),
                            command=" ".join(one.request.command),
                        )
                    )
            group.fleet.jobs = found

    # What nodes report.

    def failed_boots(self, resources: Sequence[_Resource], groups: Sequence[_Group]) -> dict[str, dict[str, str]]:
        """The last reason of each boot that failed in the last hour, by stack and instance."""
        stacks = {group.stack for group in groups}
        logs = [one for one in resources if one.type == "AWS::Logs::LogGroup" and one.stack in stacks]
        asked = [
            (
                one,
                self._account.start(
                    LOG_EVENTS,
                    logGroupName=one.physical_id,
                    filterPattern=FAILED_BOOTS,
                    startTime=milliseconds(self._now - _FAILED_BOOT_AGE),
                    endTime=milliseconds(self._now),
                ),
            )
            for one in logs
            if not one.physical_id.startswith(NOT_OF_NODES)
        ]
        found: dict[str, dict[str, str]] = {}
        for one, future in asked:
            for message in messages_of(self._missed.take(LOG_EVENTS, one.about, future)):
                if message.place is Place.BOOT:
                    found.setdefault(one.stack, {})[message.subject] = message.text
        return found

    def severities(self, groups: Sequence[_Group]) -> dict[str, Severity]:
        """What the watchdogs of nodes ask for, by instance; without those that have reported nothing for minutes."""
        wanted = [(name, group.path) for group in groups for name, _, _ in group.instances or ()]
        queries = [_query(index, name, path) for index, (name, path) in enumerate(wanted)]
        futures: list[Future[Answer]] = [
            self._account.start(
                METRIC_DATA,
                MetricDataQueries=queries[start : start + _MOST_QUERIES],
                StartTime=self._now - _SEVERITY_AGE,
                EndTime=self._now,
            )
            for start in range(0, len(queries), _MOST_QUERIES)
        ]
        found: dict[str, Severity] = {}
        for future in futures:
            answer = self._missed.take(METRIC_DATA, "", future)
            for one in () if answer is None else answer.get("MetricDataResults", ()):
                with self._missed.reading(METRIC_DATA, ""):
                    if one.get("Values"):
                        # The newest value is the first, of several pages too (CloudWatch API reference, GetMetricData).
                        name = wanted[int(one["Id"].removeprefix("n"))][0]
                        found.setdefault(name, Severity(int(one["Values"][0])))
                    if one.get("StatusCode") in ("InternalError", "Forbidden"):
                        cause = f"CloudWatch answered {one['StatusCode']}"
                        self._missed.add(Unread(call=METRIC_DATA.name, about="", cause=cause, fix="try again"))
        return found

    # Reserved capacity.

    def capacity(self, resources: Sequence[_Resource]) -> list[Capacity]:
        """Reservations, blocks and life spans of the fleets."""
        made = {one.about: one.physical_id for one in resources if one.type in (RESERVATION, RESERVATION_IN_GROUP)}
        asked = []
        for key, fleet in self._cluster.fleets.items():
            for window in fleet.plan.windows:
                name = window.reservation_id or fleet.plan.terms.reservation_id or made.get(key, "")
                future = self._account.start(RESERVATIONS, CapacityReservationIds=[name]) if name else None
                asked.append((key, fleet, window, name, future))
        found: list[Capacity] = []
        for key, fleet, window, name, future in asked:
            answer = None if future is None else self._missed.take(RESERVATIONS, key, future)
            live: Mapping[str, Any] = {}
            with self._missed.reading(RESERVATIONS, key):
                live = answer["CapacityReservations"][0] if answer else {}
            found.append(self._capacity(key, fleet, window, name, live))
        return found

    def _capacity(
        self, key: str, fleet: PlannedFleet, window: CapacityWindow, name: str, live: Mapping[str, Any]
    ) -> Capacity:
        terms = fleet.plan.terms
        planned = next((one.ends_at for one in terms.blocks if one.reservation_id == name), terms.ends_at)
        ends, starts = live.get("EndDate") or planned, live.get("StartDate") or window.starts_at
        count, free = live.get("TotalInstanceCount"), live.get("AvailableInstanceCount")
        differs = planned is not None and ends is not None and utc_text(planned) != utc_text(ends)
        return Capacity(
            fleet=key,
            reservation_id=name,
            kind=terms.kind.value,
            state=live.get("State", ""),
            count=count,
            used=None if count is None or free is None else count - free,
            starts_at=utc_text(starts) if starts is not None and starts > self._now else "",
            drain_at=utc_text(window.drain_at) if window.drain_at else "",
            ends_at=utc_text(ends) if ends else "",
            seconds_to_drain=self._seconds_to(window.drain_at),
            seconds_to_end=self._seconds_to(ends),
            planned_end=utc_text(planned) if differs and planned else "",
        )

    def _seconds_to(self, moment: datetime | None) -> int | None:
        return None if moment is None else int((moment - self._now).total_seconds())


def _query(index: int, instance: str, fleet: str) -> dict[str, Any]:
    dimensions = [{"Name": FLEET, "Value": fleet}, {"Name": INSTANCE, "Value": instance}]
    metric = {"Namespace": NAMESPACE, "MetricName": NODE_SEVERITY.name, "Dimensions": dimensions}
    return {"Id": f"n{index}", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Maximum"}}
