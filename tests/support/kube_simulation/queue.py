"""The queue of Kueue in front of jobs: it admits them, and gives their pods nodes.

Source: kubernetes-sigs/kueue v0.19.2.

* All pods of a job are admitted together, within the quota (docs, "Cluster Queue", "Cohort").
* Where a set of pods has a topology, each pod has a node (docs, "Topology Aware Scheduling"). A node is lost to a job if
  it is gone, or if it is cordoned and no pod of the job is left there (pkg/controller/tas/node_controller.go:167-171,
  361-411, 461-487; TASReplaceNodeOnNodeTaints and TASReplaceNodeOnPodTermination are on by default, pkg/features/
  kube_features.go:723, 814).
* Another node takes the place of a lost one. If there is none at once, or several are lost, the job is evicted, and waits
  again (pkg/scheduler/scheduler.go:424, TASFailedNodeReplacementFailFast; node_controller.go:489-511).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kube_simulation.cluster import Cluster, Manifest, Node, Pod, Workload, amount_of, has_affinity, requests_of


@dataclass(eq=False)
class PodSet:
    """Pods of one template: members of the job from `first` on. Its `hosts` are None where Kueue chooses no nodes."""

    template: Manifest
    count: int
    first: int = 0
    hosts: list[str | None] = field(init=False)

    def __post_init__(self) -> None:
        self.requests = requests_of(self.template["spec"])
        self.is_pinned = any("topology" in one for one in self.template.get("metadata", {}).get("annotations", {}))
        self.release()

    def release(self) -> None:
        """Give the nodes back."""
        self.hosts = [None] * self.count


class Queued(Workload, Protocol):
    """A job that a queue admits."""

    queue: str | None
    is_admitted: bool
    has_failed: bool

    @property
    def sets(self) -> Sequence[PodSet]:
        """Its pods, by their template."""


class Queue:
    """A ClusterQueue of Kueue with its flavors, as a workload without pods."""

    def __init__(self, manifests: Sequence[Manifest], jobs: Sequence[Queued]) -> None:
        self.name, self.replicas, self.pods, self.broken = "ClusterQueue", 0, list[Pod](), set[int]()
        self.jobs = list(jobs)
        self.quotas = _quotas([one for one in manifests if one["kind"] == "ClusterQueue"])
        self.flavors = {one["metadata"]["name"]: one["spec"] for one in manifests if one["kind"] == "ResourceFlavor"}

    def unavailable(self, cluster: Cluster) -> int:
        """Nothing of its own."""
        del cluster
        return 0

    def step(self, cluster: Cluster) -> None:
        """Give jobs other nodes for lost ones, and admit those that fit."""
        for job in self.jobs:
            if job.is_admitted and not job.has_failed:
                self._replace(cluster, job)
        for job in self.jobs:
            if not job.is_admitted and not job.pods and not job.has_failed:
                self._admit(cluster, job)

    def _flavor(self, pods: PodSet) -> str:
        """The flavor whose nodes the pods may run on."""
        spec = pods.template["spec"]
        labels = {name: flavor.get("nodeLabels", {}) for name, flavor in self.flavors.items()}
        wanted = spec.get("nodeSelector", {}).items()
        (name,) = (name for name, own in labels.items() if wanted <= own.items() and has_affinity(spec, own))
        return str(name)

    def _admit(self, cluster: Cluster, job: Queued) -> None:
        if not self._has_quota(job):
            return
        hosts = [self._hosts(cluster, pods, pods.count) if pods.is_pinned else [None] for pods in job.sets]
        if any(pods.is_pinned and len(found) < pods.count for pods, found in zip(job.sets, hosts, strict=True)):
            return
        for pods, found in zip(job.sets, hosts, strict=True):
            if pods.is_pinned:
                pods.hosts = [*found]
        job.is_admitted = True
        cluster.changes += 1

    def _has_quota(self, job: Queued) -> bool:
        admitted = [one for one in self.jobs if one.is_admitted and not one.has_failed]
        asked = [(self._flavor(pods), pods) for one in [*admitted, job] for pods in one.sets]
        return all(
            sum(pods.requests.get(name, 0) * pods.count for of, pods in asked if of == flavor) <= quota
            for flavor in {self._flavor(pods) for pods in job.sets}
            for name, quota in self.quotas[flavor].items()
        )

    def _hosts(self, cluster: Cluster, pods: PodSet, count: int) -> list[str]:
        """Nodes that have room beside the pods that are admitted to them and do not run yet."""
        found: list[str] = []
        probe = Pod(owner=self, labels={}, requests=pods.requests, spec=pods.template["spec"])
        for node in cluster.nodes.values():
            if not cluster.fits(node, probe):
                continue
            places = min(self._left(node, name) // amount for name, amount in pods.requests.items())
            found += [node.name] * max(0, places)
            if len(found) >= count:
                break
        return found[:count]

    def _left(self, node: Node, resource: str) -> int:
        running = [(pod.owner.name, pod.member) for pod in node.pods]
        coming = sum(
            pods.requests.get(resource, 0)
            for job in self.jobs
            if job.is_admitted
            for pods in job.sets
            for index, host in enumerate(pods.hosts)
            if host == node.name and (job.name, pods.first + index) not in running
        )
        return node.room.get(resource, 0) - coming

    def _replace(self, cluster: Cluster, job: Queued) -> None:
        placed = {host for pods in job.sets for host in pods.hosts if host is not None}
        lost = {host for host in placed if _is_lost(cluster, job, host)}
        if not lost:
            return
        found: list[tuple[PodSet, list[int], list[str]]] = []
        if len(lost) == 1:
            for pods in job.sets:
                indices = [index for index, host in enumerate(pods.hosts) if host in lost]
                hosts = self._hosts(cluster, pods, len(indices))
                found.append((pods, indices[: len(hosts)], hosts))
                if len(hosts) < len(indices):
                    found = []
                    break
        if not found:
            self._evict(cluster, job)
            return
        for pods, indices, hosts in found:
            for index, host in zip(indices, hosts, strict=True):
                pods.hosts[index] = host
        for pod in job.pods:
            pods = next(one for one in reversed(job.sets) if one.first <= pod.member)
            pod.host = pods.hosts[pod.member - pods.first]
        cluster.changes += 1

    def _evict(self, cluster: Cluster, job: Queued) -> None:
        job.is_admitted = False
        for pods in job.sets:
            pods.release()
        for pod in job.pods:
            cluster.end(pod)
        cluster.changes += 1


def _is_lost(cluster: Cluster, job: Queued, host: str) -> bool:
    node = cluster.nodes.get(host)
    if node is None:
        return True
    return node.is_cordoned and all(pod.owner is not job or pod.gone_at is not None for pod in node.pods)


def _quotas(queues: Sequence[Manifest]) -> dict[str, dict[str, int]]:
    """What the first queue can have of each flavor while the others of its cohort are idle.

    Kueue, "Cohort": a queue without a borrowingLimit takes all that others of its cohort leave, up to their lendingLimit.
    """
    found: dict[str, dict[str, int]] = {}
    for index, queue in enumerate(queues):
        for flavor in (one for group in queue["spec"]["resourceGroups"] for one in group["flavors"]):
            each = found.setdefault(flavor["name"], {})
            for one in flavor["resources"]:
                assert index or "borrowingLimit" not in one
                given = str(one.get("lendingLimit", one["nominalQuota"]) if index else one["nominalQuota"])
                each[one["name"]] = each.get(one["name"], 0) + amount_of(one["name"], given)
    return found
