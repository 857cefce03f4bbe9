"""What makes pods: Deployments, LeaderWorkerSets, JobSets and Jobs, and the queue of Kueue in front of jobs.

Each follows its source:

* Deployment: kubernetes v1.20.2, pkg/controller/deployment/rolling.go, as in the Kubernetes documentation,
  "Deployments": a share of unavailable pods is rounded down, to one at least where there is no surge.
* Rollout: argoproj/argo-rollouts v1.9.0, utils/replicaset/replicaset.go, `resolveFenceposts`: as a Deployment. Here
  every version passes its steps, between which the real one waits.
* LeaderWorkerSet: kubernetes-sigs/lws v0.10.0, api/leaderworkerset/v1 (RecreateGroupOnPodRestart; rolling updates from
  the last group, `maxUnavailable` at a time).
* JobSet: kubernetes-sigs/jobset v0.12.0, api/jobset/v1alpha2 (BlockingRecreate, failure policies). Job: Kubernetes
  documentation, "Handling retriable and non-retriable pod failures with Pod failure policy": a pod that was evicted has
  the condition DisruptionTarget.
* Kueue: kubernetes-sigs/kueue v0.19.2, docs, "Cluster Queue" (all pods of a job are admitted together, within the
  quota) and "Topology Aware Scheduling" (each pod has a node; another one takes the place of one that is lost; a job
  that lost several is evicted and waits again).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any

from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from kube_simulation.cluster import Budget, Cluster, Manifest, Node, Pod, Workload, amount_of, requests_of, share


@dataclass(eq=False)
class _OfManifest:
    manifest: Manifest
    pods: list[Pod] = field(default_factory=list)
    #: Versions whose pods never become ready.
    broken: set[int] = field(default_factory=set)
    revision: int = 1

    def __post_init__(self) -> None:
        self.name = f"{self.manifest['kind']}/{self.manifest['metadata']['name']}"
        self.spec = self.manifest["spec"]

    def _pod(self, template: Manifest, **given: Any) -> Pod:
        made = Pod(
            owner=self,  # type: ignore[arg-type]
            labels=template.get("metadata", {}).get("labels", {}),
            requests=requests_of(template["spec"]),
            spec=template["spec"],
            revision=given.pop("revision", self.revision),
            **given,
        )
        self.pods.append(made)
        return made


class Deployment(_OfManifest):
    """Pods of one kind, whose new versions replace old ones bit by bit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.replicas: int = self.spec.get("replicas", 1)
        self._requests = requests_of(self.spec["template"]["spec"])
        self._counts = {1: self.replicas}

    def roll(self, *, broken: bool = False) -> None:
        """Give it a new version."""
        self.revision = max(self._counts) + 1
        self._counts[self.revision] = 0
        if broken:
            self.broken.add(self.revision)

    def roll_back(self) -> None:
        """Give it the first version again."""
        self.revision = 1

    def unavailable(self, cluster: Cluster) -> int:
        """Servers that are not ready."""
        return self.replicas - sum(map(cluster.is_ready, self.pods))

    @property
    def has_rolled(self) -> bool:
        """Whether all of its pods are of its version."""
        return all(count == 0 for revision, count in self._counts.items() if revision != self.revision)

    def step(self, cluster: Cluster) -> None:
        """One round of the controllers of the Deployment and of its ReplicaSets."""
        ready = dict.fromkeys(self._counts, 0)
        for pod in self.pods:
            ready[pod.revision] += cluster.is_ready(pod)
        strategy = self.spec["strategy"]
        rolling = strategy["canary"] if "canary" in strategy else strategy["rollingUpdate"]
        surge = share(rolling["maxSurge"], self.replicas, ceil)
        away = share(rolling["maxUnavailable"], self.replicas, floor)
        self._scale_up(surge)
        self._scale_down(ready, self.replicas - (away if surge or away else 1))
        for revision, count in self._counts.items():
            self._replace(cluster, revision, count)

    def _scale_up(self, surge: int) -> None:
        room = self.replicas + surge - sum(self._counts.values())
        missing = self.replicas - self._counts[self.revision]
        self._counts[self.revision] += max(0, min(room, missing))

    def _scale_down(self, ready: dict[int, int], fewest: int) -> None:
        counts, new = self._counts, self.revision
        old = [one for one in counts if one != new and counts[one]]
        spare = sum(counts.values()) - fewest - (counts[new] - ready[new])
        if not old or spare <= 0:
            return
        for one in old:  # those that are not ready go first
            gone = max(0, min(spare, counts[one] - ready[one]))
            counts[one] -= gone
            spare -= gone
        more = sum(ready.values()) - fewest
        for one in old:
            gone = max(0, min(more, counts[one]))
            counts[one] -= gone
            more -= gone

    def _replace(self, cluster: Cluster, revision: int, count: int) -> None:
        """What a ReplicaSet does: pods that end do not count; those without a node go first, then those not ready."""
        pods = [one for one in self.pods if one.revision == revision and one.gone_at is None]
        pods.sort(key=lambda one: (one.node is not None, cluster.is_ready(one)))
        for pod in pods[: max(0, len(pods) - count)]:
            cluster.end(pod)
        template = self.spec["template"]
        for _ in range(count - len(pods)):
            self.pods.append(
                Pod(
                    owner=self,
                    labels=template["metadata"]["labels"],
                    requests=self._requests,
                    spec=template["spec"],
                    revision=revision,
                )
            )


class LeaderWorkerSet(_OfManifest):
    """Groups of pods, each of which is one server; a group restarts when one of its pods does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.groups = self.spec["replicas"]
        self.size = self.spec["leaderWorkerTemplate"]["size"]
        self._of_group = [1] * self.groups

    @property
    def replicas(self) -> int:
        """Pods of all groups."""
        return int(self.groups * self.size)

    def roll(self) -> None:
        """Give it a new version."""
        self.revision += 1

    @property
    def has_rolled(self) -> bool:
        """Whether all groups are of its version."""
        return set(self._of_group) == {self.revision}

    def _by_group(self) -> dict[int, list[Pod]]:
        found: dict[int, list[Pod]] = {group: [] for group in range(self.groups)}
        for pod in self.pods:
            found[pod.member // self.size].append(pod)
        return found

    def _works(self, cluster: Cluster, pods: list[Pod]) -> bool:
        return len(pods) == self.size and all(map(cluster.is_ready, pods))

    def unavailable(self, cluster: Cluster) -> int:
        """Groups that do not answer."""
        return sum(not self._works(cluster, pods) for pods in self._by_group().values())

    def step(self, cluster: Cluster) -> None:
        """Restart groups that lost a pod, and those of an old version in their turn."""
        groups, away = self._by_group(), self.unavailable(cluster)
        at_once = self.spec["rolloutStrategy"]["rollingUpdateConfiguration"]["maxUnavailable"]
        for group in reversed(range(self.groups)):
            pods = groups[group]
            works = self._works(cluster, pods)
            if pods and self._of_group[group] < self.revision and (away < at_once or not works):
                self._of_group[group] = self.revision
                away += works
                for pod in pods:
                    cluster.end(pod)
            if not pods:
                self._make(group)
            elif len(pods) < self.size or any(one.gone_at is not None for one in pods):
                for pod in pods:
                    cluster.end(pod)

    def _make(self, group: int) -> None:
        spec = self.spec["leaderWorkerTemplate"]
        for index in range(self.size):
            template = spec["leaderTemplate" if index == 0 else "workerTemplate"]
            labels = {
                **template["metadata"]["labels"],
                "leaderworkerset.sigs.k8s.io/name": self.manifest["metadata"]["name"],
                "leaderworkerset.sigs.k8s.io/worker-index": str(index),
            }
            labelled = {**template, "metadata": {"labels": labels}}
            self._pod(labelled, member=group * self.size + index, revision=self._of_group[group])


class Gang(_OfManifest):
    """The pods of a JobSet or a Job.

    All pods of a JobSet end when one fails, and start again together. A Job replaces the pod that failed.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.is_set = self.manifest["kind"] == "JobSet"
        self.job = self.spec["replicatedJobs"][0]["template"]["spec"] if self.is_set else self.spec
        self.template = self.job["template"]
        self.replicas = self.job["parallelism"]
        self.requests = requests_of(self.template["spec"])
        self.queue = self.manifest["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name")
        self.is_pinned = any("topology" in one for one in self.template["metadata"].get("annotations", {}))
        self.is_admitted, self.has_failed = self.queue is None, False
        #: Failures that count, by the pod's index; those of a JobSet are all under 0.
        self.failures: dict[int, int] = {}
        self.hosts: list[str | None] = [None] * self.replicas

    def unavailable(self, cluster: Cluster) -> int:
        """1 while not all of its pods run."""
        return int(self.has_failed or len(self.pods) < self.replicas or not all(map(cluster.is_ready, self.pods)))

    def step(self, cluster: Cluster) -> None:
        """Restart after a failure, or give up."""
        lost = [one for one in self.pods if one.evicted and one.gone_at is not None]
        if self.is_set and (lost or 0 < len(self.pods) < self.replicas):
            for pod in self.pods:
                cluster.end(pod)
            return
        if self.has_failed or not self.is_admitted:
            return
        present = {one.member for one in self.pods}
        for member in sorted(set(range(self.replicas)) - present):
            self._pod(self.template, member=member, host=self.hosts[member])

    def count_disruption(self, pod: Pod) -> None:
        """A pod was evicted: the policies say whether that counts as a failure of the program."""
        if self._forgives():
            return
        index = 0 if self.is_set else pod.member
        self.failures[index] = self.failures.get(index, 0) + 1
        self.has_failed = self.has_failed or self.failures[index] > self._most_failures()

    def _forgives(self) -> bool:
        rules = self.job.get("podFailurePolicy", {}).get("rules", ())
        disrupted = [one["action"] for one in rules if _is_disruption(one)]
        if not self.is_set:
            return "Ignore" in disrupted
        of_set = [one["action"] for one in self.spec["failurePolicy"].get("rules", ())]
        return "FailJob" in disrupted and "RestartJobSetAndIgnoreMaxRestarts" in of_set

    def _most_failures(self) -> int:
        if self.is_set:
            return int(self.spec["failurePolicy"]["maxRestarts"])
        return int(self.job["backoffLimitPerIndex"])


def _is_disruption(rule: Manifest) -> bool:
    return any(one["type"] == "DisruptionTarget" for one in rule.get("onPodConditions", ()))


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


class Queue:
    """A ClusterQueue of Kueue with its flavors, as a workload without pods: it admits jobs."""

    def __init__(self, manifests: Sequence[Manifest], jobs: Sequence[Gang]) -> None:
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
            if job.is_admitted and job.is_pinned:
                self._replace(cluster, job)
        for job in self.jobs:
            if not job.is_admitted and not job.pods and not job.has_failed:
                self._admit(cluster, job)

    def _flavor(self, job: Gang) -> str:
        wanted = job.template["spec"]["nodeSelector"]
        (name,) = (name for name, spec in self.flavors.items() if wanted.items() <= spec.get("nodeLabels", {}).items())
        return str(name)

    def _admit(self, cluster: Cluster, job: Gang) -> None:
        flavor = self._flavor(job)
        used = [one for one in self.jobs if one.is_admitted and not one.has_failed and self._flavor(one) == flavor]
        for name, quota in self.quotas[flavor].items():
            if sum(one.requests.get(name, 0) * one.replicas for one in [*used, job]) > quota:
                return
        if job.is_pinned:
            hosts = self._hosts(cluster, job, job.replicas)
            if len(hosts) < job.replicas:
                return
            job.hosts = [*hosts]
        job.is_admitted = True
        cluster.changes += 1

    def _hosts(self, cluster: Cluster, job: Gang, count: int) -> list[str]:
        """Nodes that have room beside the pods that are admitted to them and do not run yet."""
        found: list[str] = []
        probe = Pod(owner=job, labels={}, requests=job.requests, spec=job.template["spec"])
        for node in cluster.nodes.values():
            if not cluster.fits(node, probe):
                continue
            places = min(self._left(node, name) // amount for name, amount in job.requests.items())
            found += [node.name] * max(0, places)
        return found[:count]

    def _left(self, node: Node, resource: str) -> int:
        running = [(pod.owner.name, pod.member) for pod in node.pods]
        coming = sum(
            job.requests.get(resource, 0)
            for job in self.jobs
            if job.is_admitted
            for member, host in enumerate(job.hosts)
            if host == node.name and (job.name, member) not in running
        )
        return node.room.get(resource, 0) - coming

    def _replace(self, cluster: Cluster, job: Gang) -> None:
        lost = {one for one in job.hosts if one not in cluster.nodes}
        if not lost:
            return
        if len(lost) > 1:
            job.is_admitted, job.hosts = False, [None] * job.replicas
            for pod in job.pods:
                cluster.end(pod)
            cluster.changes += 1
            return
        members = [member for member, host in enumerate(job.hosts) if host in lost]
        hosts = self._hosts(cluster, job, len(members))
        if len(hosts) == len(members):
            for member, host in zip(members, hosts, strict=True):
                job.hosts[member] = host
            for pod in job.pods:
                pod.host = job.hosts[pod.member]
            cluster.changes += 1


_KINDS: dict[str, Callable[[Manifest], Workload]] = {
    "Deployment": Deployment,
    "Rollout": Deployment,
    "LeaderWorkerSet": LeaderWorkerSet,
    "JobSet": Gang,
    "Job": Gang,
}


def cluster_of(pools: Sequence[NodePool], manifests: Sequence[Manifest], **given: Any) -> Cluster:
    """A cluster in which all of this runs, and every pod is ready.

    Args:
        pools: Groups of nodes, all of which are there.
        manifests: Objects as they are applied. A Deployment with an autoscaler has the most replicas of it.
        given: Arguments of `Cluster`.
    """
    cluster = Cluster(**given)
    for pool in pools:
        cluster.add_pool(pool)
    most = {
        one["spec"]["scaleTargetRef"]["name"]: one["spec"]["maxReplicas"]
        for one in manifests
        if one["kind"] == "HorizontalPodAutoscaler"
    }
    made: list[Workload] = []
    for one in manifests:
        if one["kind"] in _KINDS:
            name = one["metadata"]["name"]
            sized = {**one, "spec": {"replicas": most[name], **one["spec"]}} if name in most else one
            made.append(_KINDS[one["kind"]](sized))
        elif one["kind"] == "PodDisruptionBudget":
            cluster.budgets.append(Budget(one))
    queued = [one for one in made if isinstance(one, Gang) and one.queue is not None]
    if queued:
        made.insert(0, Queue(manifests, queued))
    cluster.workloads = made
    return cluster
