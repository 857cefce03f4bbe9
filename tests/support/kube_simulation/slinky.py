"""Slurm on Kubernetes: slurmctld with its jobs, and what Slinky's operator does with the pods of NodeSets.

Source: SlinkyProject/slurm-operator v1.2.1. Lines of nodeset_sync.go and others of internal/controller/nodeset are of
that version.

* A busy pod has a label, and a budget of the operator lets no pod with it be evicted (nodeset_sync_status.go:485-511,
  internal/builder/workerbuilder/worker_pdb.go:23-35, pkg/conditions/conditions.go:46-50). The operator looks every 30 s
  (nodeset_sync.go:85), so a job that began since then is not protected.
* It drains the node in Slurm while its Kubernetes node is cordoned, and ends that afterwards (syncCordon,
  nodeset_sync.go:486-590).
* A rolling update takes a share of the pods, rounded up, in which pods that are missing or not ready count; a pod is
  ended when Slurm has drained its node. Idle pods go first, then those whose jobs end first (splitUpdatePods, 1585-1647;
  processCondemned, 1277-1322; utils/sort.go:36-97). Pods that are made again end the drains of all others for once
  (doPodScale, 1077-1115).
* Nothing of it happens while slurmctld or slurmrestd does not answer (RefreshNodeCache, 376-384).
* A pod that ends sets its node DOWN (internal/builder/workerbuilder/worker_app.go:261-268), and its job is requeued
  (slurm.conf(5), JobRequeue).
* slurmctld and slurmdbd are StatefulSets of one pod, login and slurmrestd Deployments (internal/builder). The volume of
  slurmctld is in one zone (Amazon EBS).

A job has entire nodes of one NodeSet, and starts when they are idle, also before others that wait (backfill).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.software.release import ChartRelease
from kube_simulation.cluster import ZONE, Budget, Cluster, Manifest, OfManifest, Pod, Workload, amount_of, share
from kube_simulation.system import add_system_nodes, deployment
from kube_simulation.workloads import Deployment

_PROTECTED = "nodeset.slinky.slurm.net/pod-protect"
_CLUSTER = "slinky.slurm.net/cluster"
_NEVER = 10**9


@dataclass(eq=False, slots=True)
class Job:
    """A job of Slurm; one that `repeats` is submitted again at its end."""

    partition: str
    count: int
    minutes: int
    repeats: bool = False
    ends_at: int | None = None
    #: How often a pod ended under it.
    lost: int = 0


@dataclass(eq=False, slots=True)
class SlurmNode:
    """A node of Slurm."""

    job: Job | None = None
    is_drained: bool = False


class StatefulSet(OfManifest):
    """One pod, which starts again when the old one is gone; one with a volume stays in the zone of its first node."""

    replicas = 1

    def unavailable(self, cluster: Cluster) -> int:
        """Pods that are not ready."""
        return 1 - sum(map(cluster.is_ready, self.pods))

    def step(self, cluster: Cluster) -> None:
        """Make the pod that is missing."""
        del cluster
        template = self.spec["template"]
        placed = next((pod.node.labels[ZONE] for pod in self.pods if pod.node is not None), None)
        if placed is not None and self.spec["has_volume"]:
            self.spec = {**self.spec, "zone": placed}
        if not self.pods:
            zone = {ZONE: self.spec["zone"]} if "zone" in self.spec else {}
            self._pod({"metadata": {}, "spec": {**template["spec"], "nodeSelector": zone}})


@dataclass(eq=False)
class Slurm:
    """slurmctld: which jobs run on which nodes."""

    needs: Sequence[StatefulSet | Deployment]
    jobs: list[Job]
    name: str = "Slurm"
    replicas: int = 0
    pods: list[Pod] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    nodes: dict[tuple[str, int], SlurmNode] = field(default_factory=dict)
    #: Partitions that start no jobs (`scontrol update partitionname=NAME state=down`).
    down: set[str] = field(default_factory=set)
    _ready: set[tuple[str, int]] = field(default_factory=set)

    def answers(self, cluster: Cluster) -> bool:
        """Whether the operator gets an answer of slurmctld by slurmrestd."""
        return all(one.unavailable(cluster) == 0 for one in self.needs)

    def unavailable(self, cluster: Cluster) -> int:
        """1 while no job starts."""
        return int(not self.answers(cluster))

    def register(self, partition: str, ready: set[int]) -> None:
        """The nodes of a NodeSet whose pods run; a job on any other node is requeued."""
        for key, node in self.nodes.items():
            if key[0] == partition and key[1] not in ready and node.job is not None:
                node.job.lost += 1
                self._free(node.job)
        self._ready = {key for key in self._ready if key[0] != partition} | {(partition, one) for one in ready}

    def step(self, cluster: Cluster) -> None:
        """End jobs and start others."""
        if self.needs[0].unavailable(cluster):
            return
        for job in [one for one in self.jobs if one.ends_at is not None and one.ends_at <= cluster.now]:
            self._free(job)
            if not job.repeats:
                self.jobs.remove(job)
        for job in self.jobs:
            if job.ends_at is None and job.partition not in self.down:
                self._start(cluster, job)

    def _start(self, cluster: Cluster, job: Job) -> None:
        idle = [
            node
            for key, node in self.nodes.items()
            if key[0] == job.partition and key in self._ready and node.job is None and not node.is_drained
        ]
        if len(idle) >= job.count:
            job.ends_at = cluster.now + job.minutes
            for node in idle[: job.count]:
                node.job = job

    def _free(self, job: Job) -> None:
        job.ends_at = None
        for node in self.nodes.values():
            if node.job is job:
                node.job = None


class NodeSet(OfManifest):
    """The pods of a group of nodes, each of which is a node of Slurm."""

    def __init__(self, manifest: Manifest, slurm: Slurm, operator: Deployment) -> None:
        super().__init__(manifest)
        self.slurm, self.operator = slurm, operator
        self.partition: str = manifest["metadata"]["name"]
        self.replicas: int = self.spec["replicas"]
        self._cordoned: set[Pod] = set()
        for index in range(self.replicas):
            slurm.nodes[self.partition, index] = SlurmNode()

    def roll(self) -> None:
        """Give it a new version."""
        self.revision += 1

    @property
    def has_rolled(self) -> bool:
        """Whether all of its pods are of its version."""
        return {pod.revision for pod in self.pods} == {self.revision}

    def node(self, pod: Pod) -> SlurmNode:
        """The node of Slurm that a pod is."""
        return self.slurm.nodes[self.partition, pod.member]

    def unavailable(self, cluster: Cluster) -> int:
        """Nodes on which no job starts."""
        return self.replicas - sum(cluster.is_ready(pod) and not self.node(pod).is_drained for pod in self.pods)

    def busy(self) -> int:
        """Nodes with a job."""
        return sum(self.node(pod).job is not None for pod in self.pods)

    def step(self, cluster: Cluster) -> None:
        """One round of the operator."""
        self.slurm.register(self.partition, {pod.member for pod in self.pods if cluster.is_ready(pod)})
        if self.operator.unavailable(cluster) or not self.slurm.answers(cluster):
            return
        for pod in self.pods:
            if pod.node is not None:
                self._drain(pod, drained=pod.node.is_cordoned or pod in self._cordoned)
        missing = sorted(set(range(self.replicas)) - {pod.member for pod in self.pods})
        if missing:
            self._uncordon([pod for pod in self.pods if pod.gone_at is None])
            for member in missing:
                self._pod(self.spec["template"], member=member)
        else:
            condemned = self._condemned(cluster)
            self._uncordon([pod for pod in self.pods if pod.gone_at is None and pod not in condemned])
            for pod in condemned:
                self._condemn(cluster, pod)
        self._label()

    def _condemned(self, cluster: Cluster) -> list[Pod]:
        """Pods of an old version that go: those that do not work, and as many others as may be away."""
        alive = [pod for pod in self.pods if pod.gone_at is None]
        old = [pod for pod in alive if pod.revision != self.revision]
        sick = [pod for pod in old if not cluster.is_ready(pod)]
        away = self.replicas - len(alive)
        away += sum(not cluster.is_ready(pod) for pod in alive if pod.revision == self.revision)
        most = share(self.spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"], self.replicas, ceil)
        well = sorted((pod for pod in old if cluster.is_ready(pod)), key=self._order)
        return sick + well[: max(0, most - away)]

    def _order(self, pod: Pod) -> tuple[int, bool, int]:
        job = self.node(pod).job
        return (0 if job is None else job.ends_at or _NEVER), pod not in self._cordoned, -pod.member

    def _condemn(self, cluster: Cluster, pod: Pod) -> None:
        node = self.node(pod)
        if not cluster.is_ready(pod) or (node.is_drained and node.job is None):
            cluster.end(pod)
        else:
            self._cordoned.add(pod)
            node.is_drained = True

    def _uncordon(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            if pod.node is None or not pod.node.is_cordoned:
                self._cordoned.discard(pod)
                self._drain(pod, drained=False)

    def _drain(self, pod: Pod, *, drained: bool) -> None:
        self.node(pod).is_drained = drained

    def _label(self) -> None:
        own = {_CLUSTER: "slurm"}
        for pod in self.pods:
            is_busy = self.node(pod).job is not None and self.spec["workloadDisruptionProtection"]
            pod.labels = {**own, _PROTECTED: "true"} if is_busy else own


def nodeset(name: str, values: Mapping[str, Any]) -> Manifest:
    """A NodeSet as the chart renders it, with the chart's defaults (helm/slurm/values.yaml:692, 699, 783-790)."""
    containers = [{"name": "slurmd", "image": "slurmd", "resources": values["slurmd"]["resources"]}]
    assert "scalingMode" not in values
    return {
        "kind": "NodeSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": values["replicas"],
            "workloadDisruptionProtection": values.get("workloadDisruptionProtection", True),
            "updateStrategy": values.get("updateStrategy", {"rollingUpdate": {"maxUnavailable": "25%"}}),
            "template": {"metadata": {}, "spec": {**values["podSpec"], "containers": containers}},
        },
    }


def slurm_on(
    pools: Sequence[NodePool],
    releases: Sequence[ChartRelease],
    jobs: Sequence[Job],
    *,
    is_late: bool = False,
    seed: int = 0,
) -> Cluster:
    """A cluster with Slurm, before its pods run.

    Args:
        pools: Groups of nodes that belong to Slurm.
        releases: Those of Slinky's operator and of Slurm.
        jobs: Jobs that wait.
        is_late: Whether the operator sees a job a minute after its start.
        seed: Of the order in which pods find nodes.
    """
    charts = {one.chart: one.values for one in releases}
    values, of_operator = charts["slurm"], charts["slurm-operator"]
    cluster = Cluster(seed=seed)
    for pool in pools:
        cluster.add_pool(pool)
    (operator, webhook, login, restapi) = (
        Deployment(_deployment(name, part["resources"]))
        for name, part in {
            "slurm-operator": of_operator["operator"],
            "slurm-operator-webhook": of_operator["webhook"],
            "login": values["loginsets"]["login"]["login"],
            "slurmrestd": values["restapi"]["slurmrestd"],
        }.items()
    )
    controller = _stateful("slurmctld", values["controller"]["slurmctld"]["resources"], has_volume=True)
    slurm = Slurm([controller, restapi], [*jobs])
    nodesets = [NodeSet(nodeset(name, one), slurm, operator) for name, one in values["nodesets"].items()]
    accounting = values["accounting"]
    if accounting["enabled"]:
        cluster.workloads.append(_stateful("slurmdbd", accounting["slurmdbd"]["resources"], has_volume=False))
    of_slurm: list[Workload] = [*nodesets, slurm] if is_late else [slurm, *nodesets]
    cluster.workloads += [operator, webhook, login, controller, restapi, *of_slurm]
    labels = {_PROTECTED: "true", _CLUSTER: "slurm"}
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": labels}}
    cluster.budgets.append(Budget({"kind": "PodDisruptionBudget", "spec": spec}))
    add_system_nodes(cluster)
    return cluster


def _deployment(name: str, resources: Mapping[str, Any]) -> dict[str, Any]:
    asked = resources["requests"]
    return deployment(name, amount_of("cpu", asked["cpu"]), amount_of("memory", asked["memory"]))


def _stateful(name: str, resources: Mapping[str, Any], *, has_volume: bool) -> StatefulSet:
    made = _deployment(name, resources)
    return StatefulSet({**made, "kind": "StatefulSet", "spec": {**made["spec"], "has_volume": has_volume}})
