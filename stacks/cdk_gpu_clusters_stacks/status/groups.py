"""The groups of nodes of a cluster, and their nodes, as the service that launches them shows both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.fleet_jobs.board import JOBS, read_board
from cdk_gpu_clusters_stacks.failures.answers import messages_of
from cdk_gpu_clusters_stacks.failures.calls import EKS_NODE_GROUP, GROUPS, PCS_NODE_GROUP
from cdk_gpu_clusters_stacks.failures.reading import PCS_GROUP, groups_of
from cdk_gpu_clusters_stacks.jobs.client import jobs_of, state_of
from cdk_gpu_clusters_stacks.jobs.fleet import read_fleets
from cdk_gpu_clusters_stacks.plan.model import ClusterPlan
from cdk_gpu_clusters_stacks.preflight.account import Account, Answer
from cdk_gpu_clusters_stacks.preflight.call import HYPERPOD_CLUSTER, INSTANCES, Call, define_call
from cdk_gpu_clusters_stacks.preflight.cluster import CLUSTER_TAG, Cluster
from cdk_gpu_clusters_stacks.preflight.unread import Missed
from cdk_gpu_clusters_stacks.spec.capacity import utc_text
from cdk_gpu_clusters_stacks.stack_names import fleet_path

from .model import Fleet, Job, Node, NodeState

JOB_HISTORY = define_call("ssm", "get_parameter_history")
JOB_STREAMS = define_call("logs", "describe_log_streams")
COMPUTE_ENVIRONMENTS = define_call("batch", "describe_compute_environments")
HYPERPOD_NODES = define_call("sagemaker", "list_cluster_nodes", page_size=100)
_GROUP, _EKS, _PCS = "AWS::AutoScaling::AutoScalingGroup", "AWS::EKS::Nodegroup", "AWS::PCS::ComputeNodeGroup"
_BATCH, _HYPERPOD = "AWS::Batch::ComputeEnvironment", "AWS::SageMaker::Cluster"


def calls_for(plan: ClusterPlan) -> tuple[Call, ...]:
    """The calls that the groups of a cluster need, beside those of every cluster."""
    others: Mapping[tuple[Call, ...], object] = {
        (EKS_NODE_GROUP,): plan.kubernetes,
        (PCS_NODE_GROUP,): plan.slurm,
        (HYPERPOD_CLUSTER, HYPERPOD_NODES): plan.hyperpod,
        (COMPUTE_ENVIRONMENTS,): any(fleet.compute_environment for fleet in plan.fleets),
        (): plan.parallelcluster,
    }
    if not any(others.values()):
        return (JOB_HISTORY, JOB_STREAMS)
    return tuple(call for calls, is_there in others.items() if is_there for call in calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource of a stack, and the key of the cluster file that the stack is made for."""

    about: str
    stack: str
    type: str
    logical_id: str
    physical_id: str


class Instance(NamedTuple):
    """An instance of a group.

    Attributes:
        name: Its id.
        lifecycle: Its state in words of AWS.
        is_healthy: Whether the service finds no fault.
        reason: The fault, if the service states one.
    """

    name: str
    lifecycle: str
    is_healthy: bool = True
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class NodeGroup:
    """A group of nodes while it is read.

    Attributes:
        fleet: What is known of it.
        stack: Its stack.
        in_service: State, in words of AWS, that nodes reach only when their boot has ended; empty if there is none.
        instances: Its instances; None if they are unknown.
        path: Name of the fleet in the metrics of its nodes.
    """

    fleet: Fleet
    stack: str
    in_service: str = ""
    path: str
    instances: list[Instance] | None = None

    @property
    def names(self) -> list[str]:
        """Ids of its instances, as far as they are known."""
        return [one.name for one in self.instances or ()]

    def nodes(self, severities: Mapping[str, Severity], boots: Mapping[str, str]) -> list[Node] | None:
        """Its nodes; None if they are unknown."""
        if self.instances is None:
            return None
        return [
            _node(one, severities.get(one.name), boots.get(one.name, ""), in_service=self.in_service)
            for one in sorted(self.instances)
        ]


_LEAVING = ("Terminating", "Terminated", "Detaching", "ShuttingDown", "shutting-down", "stopping", "stopped")
_BOOTING = ("Pending", "pending", "DeepHealthCheck", "SystemUpdating")


def _node(one: Instance, severity: Severity | None, boot: str, *, in_service: str) -> Node:
    """A node, by the states of EC2, EC2 Auto Scaling and HyperPod.

    Source: EC2 and EC2 Auto Scaling user guides, "Instance lifecycle"; Amazon SageMaker API reference,
    ClusterInstanceStatusDetails.
    """
    # The watchdog of a node begins when its boot has ended.
    is_ready = one.lifecycle == in_service if in_service else severity is not None
    reason = ""
    if one.lifecycle.startswith(_LEAVING):
        state = NodeState.LEAVING
    elif one.lifecycle.startswith(("Standby", "EnteringStandby", "Warmed")):
        state = NodeState.STANDBY
    elif not one.is_healthy:
        state, reason = NodeState.FAILING, one.reason or "the health check of its group fails"
    elif severity is not None and severity >= Severity.RESET:
        state, reason = NodeState.FAILING, f"its watchdog asks for: {severity.name.lower()}"
    elif boot and not is_ready:
        state, reason = NodeState.FAILING, f"its boot failed: {boot}"
    elif is_ready:
        state = NodeState.IN_SERVICE
    else:
        state = NodeState.BOOTING if one.lifecycle.startswith(_BOOTING) else NodeState.RUNNING
    return Node(instance_id=one.name, state=state, lifecycle=one.lifecycle, severity=severity, reason=reason)


def add_gone(groups: Sequence[NodeGroup], boots: Mapping[str, Mapping[str, str]]) -> None:
    """Add failed boots of nodes that have ended since, by cause, to the first group of their stack.

    Args:
        groups: All groups.
        boots: Reason by stack and instance.
    """
    for stack, failed in boots.items():
        mine = [group for group in groups if group.stack == stack]
        here = {name for group in mine for name in group.names}
        causes = Counter(reason for name, reason in failed.items() if name not in here)
        for group in mine[:1]:
            for reason, number in causes.items():
                boots_failed = "1 boot failed" if number == 1 else f"{number} boots failed"
                group.fleet.problems.append(f"{boots_failed} in the last hour: {reason}")


class GroupReader:
    """Asks, and keeps what has no answer."""

    def __init__(self, cluster: Cluster, account: Account, missed: Missed) -> None:
        """Prepare to read.

        Args:
            cluster: The cluster file.
            account: The account.
            missed: Takes what has no answer.
        """
        self._cluster, self._account, self._missed = cluster, account, missed

    def read(self, resources: Sequence[Resource]) -> list[NodeGroup]:
        """The groups of nodes, in the order of the stacks; a further one of a stack has its logical id in its name.

        Args:
            resources: The resources of all stacks.
        """
        readers = {_GROUP: self._auto_scaling, _EKS: self._eks, _PCS: self._pcs, _BATCH: self._batch}
        kinds = {stack.name: stack.kind for stack in self._cluster.plan.stacks}
        found: list[NodeGroup] = []
        for one in resources:
            if one.type in readers:
                is_first = all(group.fleet.name != one.about for group in found)
                name = one.about if is_first else f"{one.about}, {one.logical_id}"
                fleet = Fleet(name=name, group=one.physical_id)
                path = fleet_path(one.stack, kinds[one.stack], group_type=one.type)
                in_service = "InService" if one.type == _GROUP else ""
                found.append(NodeGroup(fleet=fleet, stack=one.stack, in_service=in_service, path=path))
                readers[one.type](found[-1])
            elif one.type == _HYPERPOD:
                found += self._hyperpod(one)
        return [*found, *self._parallelcluster()]

    def _ask(self, call: Call, about: str, **parameters: Any) -> Answer | None:
        return self._missed.take(call, about, self._account.start(call, **parameters))

    def _auto_scaling(self, group: NodeGroup) -> None:
        about = group.fleet.name
        answer = self._ask(GROUPS, about, AutoScalingGroupNames=[group.fleet.group])
        with self._missed.reading(GROUPS, about):
            if answer is None:
                return
            found = answer["AutoScalingGroups"]
            if not found:
                group.fleet.problems.append(f"the Auto Scaling group {group.fleet.group} does not exist")
                return
            _add_sizes(group, found[0]["DesiredCapacity"], found[0]["DesiredCapacity"])
            self._add_members(group, answer)
            self._add_jobs(group, answer)

    def _add_members(self, group: NodeGroup, answer: Answer) -> None:
        """Instances and problems of Auto Scaling groups."""
        group.instances = [
            Instance(one["InstanceId"], one["LifecycleState"], one.get("HealthStatus") != "Unhealthy")
            for found in answer["AutoScalingGroups"]
            for one in found.get("Instances", ())
        ]
        group.fleet.problems += [one.text for one in messages_of(answer)]

    def _eks(self, group: NodeGroup) -> None:
        about, (cluster, name) = group.fleet.name, re.split("[/|]", group.fleet.group)[:2]
        answer = self._ask(EKS_NODE_GROUP, about, clusterName=cluster, nodegroupName=name)
        with self._missed.reading(EKS_NODE_GROUP, about):
            if answer is None:
                return
            size = answer["nodegroup"]["scalingConfig"]["desiredSize"]
            _add_sizes(group, size, size)
            group.fleet.problems += [one.text for one in messages_of(answer)]
            groups = groups_of(answer)
            members = self._ask(GROUPS, about, AutoScalingGroupNames=groups) if groups else None
            if members is not None:
                self._add_members(group, members)

    def _pcs(self, group: NodeGroup) -> None:
        about, named = group.fleet.name, PCS_GROUP.search(group.fleet.group)
        if named is None:
            return
        tags = {"aws:pcs:compute-node-group-id": named["computeNodeGroupIdentifier"]}
        self._account.start(INSTANCES, Filters=_tagged(tags))
        answer = self._ask(PCS_NODE_GROUP, about, **named.groupdict())
        with self._missed.reading(PCS_NODE_GROUP, about):
            if answer is not None:
                sizes = answer["computeNodeGroup"]["scalingConfiguration"]
                _add_sizes(group, sizes["minInstanceCount"], sizes["maxInstanceCount"])
                group.fleet.problems += [one.text for one in messages_of(answer)]
        found = self._instances(about, tags)
        group.instances = None if found is None else [one for one, _ in found]

    def _instances(self, about: str, tags: Mapping[str, str]) -> list[tuple[Instance, dict[str, str]]] | None:
        """The instances with some tags that have not ended, and all tags of each; None if they are unknown."""
        answer = self._ask(INSTANCES, about, Filters=_tagged(tags))
        with self._missed.reading(INSTANCES, about):
            if answer is not None:
                found = [one for part in answer["Reservations"] for one in part.get("Instances", ())]
                return [
                    (Instance(one["InstanceId"], one["State"]["Name"]), _tags_of(one))
                    for one in found
                    if one["State"]["Name"] != "terminated"
                ]
        return None

    def _batch(self, group: NodeGroup) -> None:
        """A compute environment: its nodes have the tags of their launch template."""
        about = group.fleet.name
        answer = self._ask(COMPUTE_ENVIRONMENTS, about, computeEnvironments=[group.fleet.group])
        with self._missed.reading(COMPUTE_ENVIRONMENTS, about):
            if answer is not None:
                self._add_environment(group, answer["computeEnvironments"])
        found = self._instances(about, {CLUSTER_TAG: self._cluster.spec.name, "Name": group.path})
        group.instances = None if found is None else [one for one, _ in found]

    def _add_environment(self, group: NodeGroup, found: Sequence[Mapping[str, Any]]) -> None:
        if not found:
            group.fleet.problems.append(f"the compute environment {group.fleet.group} does not exist")
            return
        environment, resources = found[0], found[0]["computeResources"]
        vcpus = instance_type(resources["instanceTypes"][0]).vcpus
        _add_sizes(group, resources["minvCpus"] // vcpus, resources["maxvCpus"] // vcpus)
        if environment.get("status") == "INVALID":
            group.fleet.problems.append(f"its compute environment is INVALID: {environment.get('statusReason', '')}")
        if environment.get("state") == "DISABLED":
            group.fleet.problems.append("its compute environment is DISABLED: AWS Batch starts no jobs on it")

    def _hyperpod(self, cluster: Resource) -> list[NodeGroup]:
        """The instance groups of a cluster of HyperPod: its nodes are instances of an account of SageMaker."""
        nodes = self._account.start(HYPERPOD_NODES, ClusterName=cluster.physical_id)
        answer = self._ask(HYPERPOD_CLUSTER, cluster.about, ClusterName=cluster.physical_id)
        found: dict[str, NodeGroup] = {}
        with self._missed.reading(HYPERPOD_CLUSTER, cluster.about):
            for one in () if answer is None else answer["InstanceGroups"]:
                found[one["InstanceGroupName"]] = self._instance_group(cluster, one)
            if answer is not None and answer.get("FailureMessage"):
                for group in list(found.values())[:1]:
                    group.fleet.problems.append(f"SageMaker reports of the cluster: {answer['FailureMessage']}")
        listed = self._missed.take(HYPERPOD_NODES, cluster.about, nodes)
        with self._missed.reading(HYPERPOD_NODES, cluster.about):
            for group in () if listed is None else found.values():
                group.instances = []
            for one in () if listed is None else listed["ClusterNodeSummaries"]:
                group = found[one["InstanceGroupName"]]
                group.instances = [*(group.instances or ()), _hyperpod_node(one)]
        return list(found.values())

    def _instance_group(self, cluster: Resource, one: Mapping[str, Any]) -> NodeGroup:
        name = one["InstanceGroupName"]
        fleets = {fleet.name: key for key, fleet in self._cluster.fleets.items()}
        fleet = Fleet(name=fleets.get(name, f"hyperpod.{name}"), group=name)
        path = f"{cluster.stack}/HyperPod/{name}"
        group = NodeGroup(fleet=fleet, stack=cluster.stack, in_service="Running", path=path)
        _add_sizes(group, one["TargetCount"], one["TargetCount"])
        if one.get("Status") in ("Failed", "Degraded"):
            fleet.problems.append(f"SageMaker reports the instance group as {one['Status']}")
        return group

    def _parallelcluster(self) -> Iterator[NodeGroup]:
        """The queues of AWS ParallelCluster, its head node and its login nodes; none before pcluster has made them.

        Source: aws-parallelcluster 3.16.1 on PyPI, constants.py and models/cluster.py: tags of instances.
        """
        cluster = self._cluster
        plan = cluster.plan.parallelcluster
        if plan is None:
            return
        found = self._instances("parallelcluster", {f"{_PCLUSTER}cluster-name": cluster.spec.name})
        if not any(tags.get(_NODE_TYPE) == "HeadNode" for _, tags in found or ()):
            return
        wanted = [(key, fleet.name, _QUEUE) for key, fleet in cluster.fleets.items()]
        wanted += [("parallelcluster.head_node", "HeadNode", _NODE_TYPE)]
        wanted += [("parallelcluster.login", "LoginNode", _NODE_TYPE)] if plan.login else []
        queues = {fleet.name: fleet.slurm_queue for fleet in cluster.plan.fleets}
        for key, name, tag in wanted:
            group = NodeGroup(fleet=Fleet(name=key, group=name), stack=plan.stack_name, path=name)
            group.instances = [one for one, tags in found or () if tags.get(tag) == name]
            queue = queues.get(name)
            if queue is not None:
                _add_sizes(group, queue.static_nodes, queue.static_nodes + queue.dynamic_nodes)
            else:
                count = plan.login.node_count if plan.login and name == "LoginNode" else 1
                _add_sizes(group, count, count)
            yield group

    def _add_jobs(self, group: NodeGroup, answer: Answer) -> None:
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


_PCLUSTER = "parallelcluster:"
_QUEUE, _NODE_TYPE = f"{_PCLUSTER}queue-name", f"{_PCLUSTER}node-type"


def _add_sizes(group: NodeGroup, least: int, most: int) -> None:
    group.fleet.least, group.fleet.most = least, most


def _tagged(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """A filter of EC2."""
    return [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]


def _tags_of(instance: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}


def _hyperpod_node(one: Mapping[str, Any]) -> Instance:
    """A node as HyperPod lists it."""
    details = one["InstanceStatus"]
    status, message = details["Status"], details.get("Message", "")
    is_healthy = status not in ("Failure", "NotFound")
    reason = "" if is_healthy else f"SageMaker reports {status}{f': {message}' if message else ''}"
    return Instance(one["InstanceId"], status, is_healthy, reason)
