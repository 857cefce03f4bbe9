"""Whether SageMaker takes the nodes of HyperPod: its quotas, and the training plans that the file names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cdk_gpu_clusters.catalogue.hyperpod import HyperPodQuota, hyperpod_quota_name
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters_stacks.spec.capacity import training_plan_of
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from ..account import Answer
from ..call import HYPERPOD_CLUSTER, HYPERPOD_CLUSTERS, HYPERPOD_TAGS, TRAINING_PLAN, NoAnswer
from ..check import Inquiry, Verdict, define_check, failed, passed, warned
from ..cluster import Cluster, fleets_where, utc, words
from ..quota import NAMED_QUOTA_CALLS, named_quota, weigh_limit

_GUIDE = 'Amazon SageMaker AI developer guide, "Prerequisites for using SageMaker HyperPod", SageMaker HyperPod quotas'
_API = "Amazon SageMaker API reference"
_NOT_HYPERPOD = "no fleet is on SageMaker HyperPod"
_NO_PLAN = "no fleet comes from a training plan"
_CLUSTER_CALLS = (HYPERPOD_CLUSTERS, HYPERPOD_TAGS, HYPERPOD_CLUSTER)


# Quotas, which only their names identify.


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesOfType:
    """Nodes that count against the same quota.

    Attributes:
        type_name: Type with SageMaker's prefix; empty for nodes of all types.
    """

    type_name: str = ""
    is_spot: bool
    count: int


def _groups(cluster: Cluster) -> Mapping[str, NodesOfType]:
    """The instance groups of the file, by their keys."""
    plan = cluster.plan.hyperpod
    if plan is None:
        return {}
    found = {
        where: NodesOfType(
            type_name=fleet.instance_group.instance_type,
            is_spot=fleet.plan.terms.kind is CapacityKind.SPOT,
            count=fleet.spec.maximum_nodes,
        )
        for where, fleet in cluster.fleets.items()
    }
    for name, group in (("controller", plan.controller), ("login", plan.login)):
        if group is not None:
            nodes = NodesOfType(type_name=group.instance_type, is_spot=False, count=group.node_count)
            found[f"hyperpod.{name}"] = nodes
    return found


def _by_type(cluster: Cluster) -> Mapping[str, NodesOfType]:
    groups: dict[tuple[str, bool], dict[str, int]] = {}
    for where, nodes in _groups(cluster).items():
        groups.setdefault((nodes.type_name, nodes.is_spot), {})[where] = nodes.count
    return {
        ", ".join(counts): NodesOfType(type_name=name, is_spot=is_spot, count=sum(counts.values()))
        for (name, is_spot), counts in groups.items()
    }


def _whole(cluster: Cluster) -> Mapping[str, NodesOfType]:
    """All nodes; beside them those on Spot, which have a quota of their own as well."""
    groups = _groups(cluster).values()
    every = {
        "hyperpod": NodesOfType(is_spot=False, count=sum(one.count for one in groups)),
        "hyperpod on Spot": NodesOfType(is_spot=True, count=sum(one.count for one in groups if one.is_spot)),
    }
    return {where: nodes for where, nodes in every.items() if nodes.count}


def _clusters(inquiry: Inquiry) -> tuple[list[Answer], list[Answer]]:
    """The clusters of HyperPod in the Region: this one, which has its tag, and others."""
    arns = [
        one["ClusterArn"]
        for one in inquiry.ask(HYPERPOD_CLUSTERS)["ClusterSummaries"]
        if one["ClusterStatus"] != "Deleting"
    ]
    for arn in arns:
        inquiry.start(HYPERPOD_TAGS, ResourceArn=arn)
        inquiry.start(HYPERPOD_CLUSTER, ClusterName=arn)
    own, others = list[Answer](), list[Answer]()
    for arn in arns:
        found = inquiry.find(HYPERPOD_CLUSTER, ClusterName=arn)
        if found is not None:  # deleted meanwhile
            is_own = inquiry.cluster.owns(inquiry.ask(HYPERPOD_TAGS, ResourceArn=arn))
            (own if is_own else others).append(found)
    return own, others


def _nodes_of(cluster: Answer) -> Iterator[tuple[str, bool, int]]:
    """Type, whether it is on Spot, and nodes of each instance group of a cluster of the account."""
    for group in (*cluster["InstanceGroups"], *cluster.get("RestrictedInstanceGroups", ())):
        is_spot = "Spot" in group.get("CapacityRequirements", {})
        if "InstanceType" in group:
            yield group["InstanceType"], is_spot, max(group.get("CurrentCount", 0), group.get("TargetCount", 0))
        for one in () if "InstanceType" in group else group.get("InstanceTypeDetails", ()):
            yield one["InstanceType"], is_spot, one.get("CurrentCount", 0)


def _judge(kind: HyperPodQuota) -> Callable[[NodesOfType, Inquiry], Verdict]:
    """Whether a quota of the Region has room for nodes."""

    def judge(nodes: NodesOfType, inquiry: Inquiry) -> Verdict:
        inquiry.start(HYPERPOD_CLUSTERS)
        name = hyperpod_quota_name(kind, type_name=nodes.type_name, spot=nodes.is_spot)
        quota, limit = named_quota("sagemaker", name, "node", inquiry)

        def used() -> float:
            return sum(
                count
                for other in _clusters(inquiry)[1]
                for type_name, is_spot, count in _nodes_of(other)
                if nodes.type_name in ("", type_name) and (is_spot == nodes.is_spot or _counts_all(nodes))
            )

        return weigh_limit(quota, limit, used=used, least=nodes.count)

    return judge


def _counts_all(nodes: NodesOfType) -> bool:
    return not nodes.type_name and not nodes.is_spot


_nodes_of_type = define_check(
    "GPU-PRE-191",
    "the quotas of SageMaker have room for the nodes of each type, from a training plan too",
    source=f'{_GUIDE}; "View SageMaker training plans quotas using the AWS management console": they count as well',
    calls=(*NAMED_QUOTA_CALLS, *_CLUSTER_CALLS),
    subjects=_by_type,
    unless=_NOT_HYPERPOD,
)(_judge("nodes-of-type"))
_all_nodes = define_check(
    "GPU-PRE-193",
    "the quota of nodes in all clusters of HyperPod has room for those of the file",
    source=_GUIDE,
    calls=(*NAMED_QUOTA_CALLS, *_CLUSTER_CALLS),
    subjects=_whole,
    unless=_NOT_HYPERPOD,
)(_judge("nodes"))


@define_check(
    "GPU-PRE-192",
    "the quota of nodes in a cluster of HyperPod has room for those of the file",
    source=_GUIDE,
    calls=NAMED_QUOTA_CALLS,
    subjects=lambda cluster: {where: nodes for where, nodes in _whole(cluster).items() if not nodes.is_spot},
    unless=_NOT_HYPERPOD,
)
def _nodes_of_cluster(nodes: NodesOfType, inquiry: Inquiry) -> Verdict:
    quota, limit = named_quota("sagemaker", hyperpod_quota_name("nodes-of-cluster"), "node", inquiry)
    return weigh_limit(quota, limit, used=lambda: 0, least=nodes.count)


@define_check(
    "GPU-PRE-194",
    "the quota of the size of a volume in HyperPod is that of the second volume or more",
    source=_GUIDE,
    calls=NAMED_QUOTA_CALLS,
    subjects=lambda cluster: {
        f"hyperpod.groups.{fleet.name}.volume_gib": size
        for fleet in cluster.fleets.values()
        if fleet.profile.joins_hyperpod and (size := fleet.group_options.volume_gib) is not None
    },
    unless="no fleet has a second volume in HyperPod",
)
def _volume_size(size_gib: int, inquiry: Inquiry) -> Verdict:
    quota, limit = named_quota("sagemaker", hyperpod_quota_name("volume"), "GB", inquiry)
    return weigh_limit(quota, limit, used=lambda: 0, least=size_gib)


# Training plans.

_with_plan = fleets_where(lambda fleet: training_plan_of(fleet.spec.capacity) is not None)
_OVER = ("Expired", "Failed")
_SHORT = timedelta(days=1)
_PLANS = 'Amazon SageMaker AI developer guide, "Reserve training plans for your training jobs or HyperPod clusters"'
#: SageMaker ends nodes of HyperPod so long before their reserved capacity ends.
_LEAD = timedelta(hours=1)


def _plan_of(fleet: PlannedFleet, inquiry: Inquiry) -> Answer | None:
    return inquiry.find(TRAINING_PLAN, TrainingPlanName=training_plan_of(fleet.spec.capacity))


def _found_plan(fleet: PlannedFleet, inquiry: Inquiry) -> Answer:
    """The training plan of a fleet.

    Raises:
        NoAnswer: If it is not there.
    """
    found = _plan_of(fleet, inquiry)
    if found is None:
        raise NoAnswer(f"there is no {training_plan_of(fleet.spec.capacity)}", fix="see GPU-PRE-195")
    return found


def _capacities(plan: Answer) -> list[Mapping[str, Any]]:
    """What a plan reserves, without what is over."""
    return [one for one in plan.get("ReservedCapacitySummaries", ()) if one["Status"] not in _OVER]


def _blocks(plan: Answer) -> list[tuple[datetime, datetime]]:
    """When capacity begins and ends, in order. There may be gaps; a plan without details is one block."""
    times = [one for one in _capacities(plan) or [plan] if "StartTime" in one and "EndTime" in one]
    return sorted((one["StartTime"], one["EndTime"]) for one in times)


def _next_start(plan: Answer, now: datetime) -> datetime | None:
    return min((start for start, _ in _blocks(plan) if start > now), default=None)


def _end_of_run(plan: Answer, now: datetime) -> datetime | None:
    """When the capacity ends that is there now; what follows without a gap, such as an extension, continues it."""
    end = None
    for start, stop in _blocks(plan):
        if start <= (end or now) < stop:
            end = stop
    return end


@define_check(
    "GPU-PRE-195",
    "the training plan is there, and active",
    source=f"{_API}, DescribeTrainingPlan; CreateTrainingPlan, Plan creation workflow; {_PLANS}: Scheduled between "
    "blocks, too",
    calls=(TRAINING_PLAN,),
    subjects=_with_plan,
    unless=_NO_PLAN,
)
def _plan_there(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict:
    plan = _plan_of(fleet, inquiry)
    if plan is None:
        return failed(
            f"there is no {training_plan_of(fleet.spec.capacity)} in {inquiry.cluster.region}",
            fix="correct ARN, Region or profile: aws sagemaker list-training-plans",
        )
    name, status = plan["TrainingPlanName"], plan["Status"]
    if status in _OVER:
        return failed(
            f"{name} is {status}" + (f": {why}" if (why := plan.get("StatusMessage")) else ""),
            fix="buy another one: gpu-clusters capacity search --training-plans",
        )
    if status == "Scheduled":
        starts = _next_start(plan, inquiry.now)
        when = f" at {utc(starts)}" if starts else ""
        return warned(
            f"{name} is {status}: SageMaker launches its nodes when its next block starts{when}", fix="deploy then"
        )
    if status != "Active":
        return warned(f"{name} is {status}: no cluster takes it before it is Scheduled", fix="wait")
    return passed(f"{name} is {status}")


@define_check(
    "GPU-PRE-196",
    "the training plan is for HyperPod, and of the fleet's type",
    source=f"{_API}, DescribeTrainingPlan, TargetResources and ReservedCapacitySummaries; TrainingPlanOffering: a plan "
    "is for its target resources only",
    calls=(TRAINING_PLAN,),
    subjects=_with_plan,
    unless=_NO_PLAN,
)
def _plan_fits(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    plan, wanted = _found_plan(fleet, inquiry), fleet.instance_group.instance_type
    name, targets = plan["TrainingPlanName"], plan.get("TargetResources")
    if targets is not None and "hyperpod-cluster" not in targets:
        yield failed(
            f"{name} is for {words(targets)}, not for hyperpod-cluster",
            fix="name a plan for HyperPod: gpu-clusters capacity search --training-plans",
        )
    types = sorted({one["InstanceType"] for one in _capacities(plan)})
    if types and wanted not in types:
        fix = f"instance_type: {types[0].removeprefix('ml.')}, or name another plan"
        yield failed(f"{name} has {words(types)}, the fleet {wanted}", fix=fix)


@define_check(
    "GPU-PRE-197",
    "the training plan is in the zone of the nodes",
    source=f"{_API}, ReservedCapacitySummary, AvailabilityZone; Amazon SageMaker AI developer guide, "
    '"Prerequisites for using SageMaker HyperPod": all instance groups are in the zone of the subnet',
    calls=(TRAINING_PLAN,),
    subjects=_with_plan,
    unless=_NO_PLAN,
)
def _plan_zone(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict | None:
    plan, zone = _found_plan(fleet, inquiry), inquiry.cluster.spec.network.availability_zone
    key = "AvailabilityZoneId" if "-az" in (zone or "") else "AvailabilityZone"
    placed = [one[key] for one in _capacities(plan) if key in one]
    elsewhere = sorted({one for one in placed if one != zone})
    if not elsewhere or zone is None:
        return None
    zones = words(elsewhere)
    cause = f"{plan['TrainingPlanName']} has capacity in {zones}, the subnet of the nodes is in {zone}"
    if zone in placed:
        return warned(f"{cause}: the nodes use only a part of it", fix="name a plan with capacity in one zone")
    return failed(cause, fix=f"choose a subnet in {zones}, or name another plan")


def _at_once(plan: Answer) -> int:
    """The most instances that a plan has at a time: capacities may follow each other."""
    found = _capacities(plan)
    if not all("StartTime" in one and "EndTime" in one for one in found):
        return sum(one["TotalInstanceCount"] for one in found)
    together: list[int] = [
        sum(one["TotalInstanceCount"] for one in found if one["StartTime"] <= moment < one["EndTime"])
        for moment in (one["StartTime"] for one in found)
    ]
    return max(together, default=plan.get("TotalInstanceCount", 0))


@define_check(
    "GPU-PRE-198",
    "the training plan has a free instance for every node",
    source=f"{_API}, DescribeTrainingPlan, TotalInstanceCount and AvailableInstanceCount",
    calls=(TRAINING_PLAN, *_CLUSTER_CALLS),
    subjects=_with_plan,
    unless=_NO_PLAN,
)
def _plan_size(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict:
    plan, arn = _found_plan(fleet, inquiry), training_plan_of(fleet.spec.capacity)
    name, total, fleets = plan["TrainingPlanName"], _at_once(plan), inquiry.cluster.fleets.values()
    needed = sum(one.spec.maximum_nodes for one in fleets if training_plan_of(one.spec.capacity) == arn)
    if needed > total:
        return failed(f"{name} has {total} instances, {needed} needed", fix="use fewer nodes, or name a larger plan")
    free = plan.get("AvailableInstanceCount")
    if plan["Status"] == "Active" and free is not None and free < needed:
        free += sum(
            group.get("CurrentCount", 0)
            for own in _clusters(inquiry)[0]
            for group in own["InstanceGroups"]
            if group.get("TrainingPlanArn") == arn
        )
        if free < needed:
            fix = "delete what else uses the plan, or use fewer nodes"
            return failed(f"{name} has {free} of {total} instances free, {needed} needed", fix=fix)
    return passed(f"{name} has {total} instances, {needed} needed")


@define_check(
    "GPU-PRE-199",
    "the nodes of the training plan do not end within a day",
    source=f"{_API}, DescribeTrainingPlan, ReservedCapacitySummaries; {_PLANS}: HyperPod's nodes end an hour before "
    'each block; "Training plans extension"',
    calls=(TRAINING_PLAN,),
    subjects=_with_plan,
    unless=_NO_PLAN,
)
def _plan_lasts(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict:
    plan = _found_plan(fleet, inquiry)
    name, ends = plan["TrainingPlanName"], _end_of_run(plan, inquiry.now)
    if ends is None:
        return passed(f"no block of {name} runs now")
    cause = f"SageMaker ends the nodes of {name} at {utc(ends - _LEAD)}, an hour before their block ends"
    if ends - _LEAD > inquiry.now + _SHORT:
        return passed(cause)
    starts = _next_start(plan, ends)
    if starts is not None:
        cause += f", and launches them again at {utc(starts)}"
    return warned(cause, fix="save checkpoints before; `aws sagemaker extend-training-plan` continues the plan")
