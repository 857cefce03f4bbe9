"""What makes pods: Deployments, LeaderWorkerSets, JobSets and Jobs; `ray` and `slinky` have those of other operators.

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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor
from typing import Any

from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from kube_simulation.cluster import Budget, Cluster, Manifest, OfManifest, Pod, Workload, requests_of, share
from kube_simulation.queue import PodSet, Queue, Queued
from kube_simulation.ray import RayCluster, RayJob, RayService


class Deployment(OfManifest):
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


class LeaderWorkerSet(OfManifest):
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

    def roll(self, *, broken: bool = False) -> None:
        """Give it a new version."""
        self.revision += 1
        if broken:
            self.broken.add(self.revision)

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
        leader: Pod | None = None
        for index in range(self.size):
            template = spec["leaderTemplate" if index == 0 else "workerTemplate"]
            labels = {
                **template["metadata"]["labels"],
                "leaderworkerset.sigs.k8s.io/name": self.manifest["metadata"]["name"],
                "leaderworkerset.sigs.k8s.io/worker-index": str(index),
            }
            labelled = {**template, "metadata": {"labels": labels}}
            probe = template["spec"]["containers"][0].get("readinessProbe", {})
            made = self._pod(
                labelled,
                member=group * self.size + index,
                revision=self._of_group[group],
                is_probed=bool(probe),
                asks=leader if "LWS_LEADER_ADDRESS" in str(probe) else None,
            )
            leader = leader or made


class Gang(OfManifest):
    """The pods of a JobSet or a Job.

    All pods of a JobSet end when one fails, and start again together. A Job replaces the pod that failed.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.is_set = self.manifest["kind"] == "JobSet"
        self.job = self.spec["replicatedJobs"][0]["template"]["spec"] if self.is_set else self.spec
        self.template = self.job["template"]
        self.replicas = self.job["parallelism"]
        self.sets = [PodSet(self.template, self.replicas)]
        self.queue = self.manifest["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name")
        self.is_admitted, self.has_failed = self.queue is None, False
        #: Failures that count, by the pod's index; those of a JobSet are all under 0.
        self.failures: dict[int, int] = {}

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
            self._pod(self.template, member=member, host=self.sets[0].hosts[member])

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


_KINDS: dict[str, Callable[[Manifest], Workload]] = {
    "Deployment": Deployment,
    "Rollout": Deployment,
    "LeaderWorkerSet": LeaderWorkerSet,
    "JobSet": Gang,
    "Job": Gang,
    "RayCluster": RayCluster,
    "RayJob": RayJob,
    "RayService": RayService,
}

#: Autoscalers, and where each states the most replicas: KEDA makes the HorizontalPodAutoscaler of a ScaledObject.
_MOST = {"HorizontalPodAutoscaler": "maxReplicas", "ScaledObject": "maxReplicaCount"}
_QUEUED = (Gang, RayCluster, RayJob)


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
        one["spec"]["scaleTargetRef"]["name"]: one["spec"][_MOST[one["kind"]]]
        for one in manifests
        if one["kind"] in _MOST
    }
    made: list[Workload] = []
    for one in manifests:
        if one["kind"] in _KINDS:
            name = one["metadata"]["name"]
            sized = {**one, "spec": {"replicas": most[name], **one["spec"]}} if name in most else one
            made.append(_KINDS[one["kind"]](sized))
        elif one["kind"] == "PodDisruptionBudget":
            cluster.budgets.append(Budget(one))
    queued: list[Queued] = [one for one in made if isinstance(one, _QUEUED) and one.queue is not None]
    if queued:
        made.insert(0, Queue(manifests, queued))
    cluster.workloads = made
    return cluster
