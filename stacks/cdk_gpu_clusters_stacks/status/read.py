"""Read the state of a cluster's stacks from an account. All calls only read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.metrics.names import FLEET, INSTANCE, NAMESPACE, NODE_SEVERITY
from cdk_gpu_clusters.rules.capacity import RESERVATION, RESERVATION_IN_GROUP, CapacityWindow
from cdk_gpu_clusters_stacks.cost import read_account
from cdk_gpu_clusters_stacks.cost.money import HOURS_PER_DAY, Usd
from cdk_gpu_clusters_stacks.failures.answers import messages_of
from cdk_gpu_clusters_stacks.failures.calls import (
    GROUPS,
    LOG_EVENTS,
    STACK_RESOURCES,
)
from cdk_gpu_clusters_stacks.failures.reading import FAILED_BOOTS, NOT_OF_NODES, milliseconds
from cdk_gpu_clusters_stacks.failures.table import Place
from cdk_gpu_clusters_stacks.plan.model import ClusterPlan
from cdk_gpu_clusters_stacks.preflight.account import Account, Answer
from cdk_gpu_clusters_stacks.preflight.call import CALLER, INSTANCES, RESERVATIONS, define_call
from cdk_gpu_clusters_stacks.preflight.check import policy_of
from cdk_gpu_clusters_stacks.preflight.cluster import Cluster
from cdk_gpu_clusters_stacks.preflight.run import caller_of
from cdk_gpu_clusters_stacks.preflight.unread import Missed, Unread
from cdk_gpu_clusters_stacks.spec import ClusterSpec
from cdk_gpu_clusters_stacks.spec.capacity import utc_text
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from .groups import GroupReader, NodeGroup, Resource, add_gone, calls_for
from .model import Alarm, Capacity, Status

ALARMS = define_call("cloudwatch", "describe_alarms")
METRIC_DATA = define_call("cloudwatch", "get_metric_data")
_CALLS = (CALLER, STACK_RESOURCES, GROUPS, INSTANCES, RESERVATIONS, LOG_EVENTS, ALARMS, METRIC_DATA)
# CloudWatch API reference: DescribeAlarms takes 100 names, GetMetricData 500 queries.
_MOST_NAMES, _MOST_QUERIES = 100, 500
#: Nodes send their severity each minute; what is older than this says nothing about now.
_SEVERITY_AGE = timedelta(minutes=10)
_FAILED_BOOT_AGE = timedelta(hours=1)
_ALARM_TYPES = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
_SLURM_JOBS = "Slurm has them: squeue on a login node"
_HEAD_NODE_JOBS = "Slurm has them: squeue on the head node"
_BATCH_JOBS = "AWS Batch has them, with their nodes: aws batch list-jobs --job-queue, with the output JobQueueArn"
_KUBERNETES_JOBS = "Kubernetes has them: kubectl get pods --all-namespaces"


def policy_for_status(spec: ClusterSpec) -> dict[str, Any]:
    """The smallest IAM policy with which `read_status` reads everything. All actions only read."""
    plan = Cluster.of(spec).plan
    return policy_of((*_CALLS, *calls_for(plan)), "GpuClustersStatus")


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
    groups = GroupReader(cluster, account, missed).read(resources)
    boots, severities = reader.failed_boots(resources, groups), reader.severities(groups)
    for group in groups:
        group.fleet.nodes = group.nodes(severities, boots.get(group.stack, {}))
    add_gone(groups, boots)
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
    if plan.parallelcluster:
        return _HEAD_NODE_JOBS
    if plan.slurm or (plan.hyperpod and plan.hyperpod.runs == "slurm"):
        return _SLURM_JOBS
    return _KUBERNETES_JOBS if plan.kubernetes else ""


@dataclass(slots=True, kw_only=True)
class _Raised:
    """The alarms of all stacks."""

    alarms: list[Alarm] | None = field(default_factory=list)
    count: int = 0


class _Reader:
    """Asks, and keeps what has no answer."""

    def __init__(self, cluster: Cluster, account: Account, missed: Missed, now: datetime) -> None:
        self._cluster, self._account, self._missed, self._now = cluster, account, missed, now

    # Stacks and alarms.

    def stacks(self) -> list[Resource]:
        """The resources of all stacks."""
        start = self._account.start
        asked = [(stack, start(STACK_RESOURCES, StackName=stack.name)) for stack in self._cluster.plan.stacks]
        found: list[Resource] = []
        for stack, future in asked:
            about = self._cluster.about(stack.kind, stack.of)
            answer = self._missed.take(STACK_RESOURCES, about, future, absent=stack.name) or {}
            with self._missed.reading(STACK_RESOURCES, about):
                found += [
                    Resource(
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

    def alarms(self, resources: Sequence[Resource]) -> _Raised:
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

    def _add_alarm(self, found: _Raised, one: Mapping[str, Any], owner: Resource) -> None:
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

    # What nodes report.

    def failed_boots(self, resources: Sequence[Resource], groups: Sequence[NodeGroup]) -> dict[str, dict[str, str]]:
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

    def severities(self, groups: Sequence[NodeGroup]) -> dict[str, Severity]:
        """What the watchdogs of nodes ask for, by instance; without those that have reported nothing for minutes."""
        wanted = [(name, group.path) for group in groups for name in group.names]
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

    def capacity(self, resources: Sequence[Resource]) -> list[Capacity]:
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
