"""What KubeRay's operator makes of a RayCluster, a RayJob and a RayService: pods, and whether they work.

Source: ray-project/kuberay v1.7.0, ray-operator/controllers/ray. Lines are of that version.

* Head and workers are pods without a PodDisruptionBudget: neither the operator nor its chart makes one.
* A pod that is missing is made again, one that ends counts until it is gone (raycluster_controller.go:1000-1066 for the
  head, 1068-1197 for workers). Nothing else ends a pod that runs (shouldDeletePod, 1512-1566).
* Without a Redis (gcsFaultToleranceOptions) a new head knows nothing, and the workers start again
  (raycluster_controller.go:1030-1033).
* A changed template changes no pod of a RayCluster without an upgradeStrategy (1463-1467), and none of a RayJob
  (rayjob_controller.go:988-992).
* Kueue suspends: all pods end (raycluster_controller.go:941-966; rayjob_controller.go:366-411).

Ray's autoscaler is not simulated, nor what a program does when it loses workers: it goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kube_simulation.cluster import Cluster, Manifest, OfManifest, Pod
from kube_simulation.queue import PodSet

#: From the start of a new head until the workers are back: they end when the head does not answer for 60 s
#: (ray-project/ray, src/ray/common/ray_config_def.h: gcs_rpc_server_reconnect_timeout_s), and start again in their pods.
_JOIN_MINUTES = 2
#: rayservice_controller.go:48: RayClusterDeletionDelayDuration.
_DELETION_MINUTES = 1


@dataclass(eq=False)
class _Ray(OfManifest):
    """Ray clusters of one object; the `revision` of a pod is the number of its cluster, and its member 0 the head."""

    is_admitted: bool = False
    has_failed: bool = False
    #: Cluster -> the head that its workers know, and from when they all do.
    _heads: dict[int, tuple[Pod, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        described = self._cluster_spec()
        (group,) = described["workerGroupSpecs"]
        self.workers: int = group["replicas"]
        self.replicas = 1 + self.workers
        self.sets = [
            PodSet(described["headGroupSpec"]["template"], 1),
            PodSet(group["template"], self.workers, first=1),
        ]
        self.has_redis = "gcsFaultToleranceOptions" in described
        self.queue = self.manifest["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name")
        self.is_admitted = self.queue is None

    def _cluster_spec(self) -> Manifest:
        raise NotImplementedError

    def of_cluster(self, number: int) -> list[Pod]:
        """The pods of one of its clusters."""
        return [pod for pod in self.pods if pod.revision == number]

    def head(self, cluster: Cluster, number: int) -> Pod | None:
        """The head of one of its clusters, if it answers."""
        return next((one for one in self.of_cluster(number) if one.member == 0 and cluster.is_ready(one)), None)

    def ready_workers(self, cluster: Cluster, number: int) -> int:
        """Workers that the head knows."""
        head = self.head(cluster, number)
        known, since = self._heads.get(number, (None, 0))
        if (head is None and not self.has_redis) or known is None or since > cluster.now:
            return 0
        return sum(one.member > 0 and cluster.is_ready(one) for one in self.of_cluster(number))

    def is_whole(self, cluster: Cluster, number: int) -> bool:
        """Whether the head and all workers of a cluster run."""
        return self.head(cluster, number) is not None and self.ready_workers(cluster, number) == self.workers

    def _reconcile(self, cluster: Cluster, number: int) -> None:
        """Make the pods that are missing, and let the workers find a new head."""
        present = {one.member for one in self.of_cluster(number)}
        for pods in self.sets:
            for index in range(pods.count):
                if pods.first + index not in present:
                    self._pod(pods.template, member=pods.first + index, revision=number, host=pods.hosts[index])
        head = self.head(cluster, number)
        known = self._heads.get(number)
        if head is not None and (known is None or known[0] is not head):
            joins = 0 if known is None or self.has_redis else _JOIN_MINUTES
            self._heads[number] = head, cluster.now + joins
            cluster.changes += 1

    def _end(self, cluster: Cluster, number: int) -> None:
        self._heads.pop(number, None)
        for pod in self.of_cluster(number):
            cluster.end(pod)


class RayCluster(_Ray):
    """A cluster that stays."""

    def _cluster_spec(self) -> Manifest:
        described: Manifest = self.spec
        return described

    def unavailable(self, cluster: Cluster) -> int:
        """1 while not all of its pods run."""
        return int(not self.is_whole(cluster, 1))

    def step(self, cluster: Cluster) -> None:
        """Make what is missing, or nothing while it is suspended."""
        if self.is_admitted:
            self._reconcile(cluster, 1)
        else:
            self._end(cluster, 1)


@dataclass(eq=False)
class RayJob(_Ray):
    """A cluster for one program, which the operator starts by itself (HTTPMode).

    The program starts when the cluster is whole (rayjob_controller.go:207-235). While the head does not answer, a timer
    runs: at its end the job has failed, and is not tried again (262, 320-327, 1325-1354, 543-552). If the head that answers does
    not know the program, it starts again there, and nothing is counted (303-310, 1307-1321). With a Redis the head knows
    that it ended, which is a failure; up to `backoffLimit` failures start a new cluster (518-557).
    """

    #: How often the program began, how often it failed, and the number of the cluster.
    starts: int = 0
    failures: int = 0
    number: int = 1
    _started_on: Pod | None = None
    _silent_since: int | None = None
    _is_retrying: bool = False

    def _cluster_spec(self) -> Manifest:
        assert self.spec["submissionMode"] == "HTTPMode"
        described: Manifest = self.spec["rayClusterSpec"]
        return described

    def unavailable(self, cluster: Cluster) -> int:
        """1 while its program does not have all workers."""
        return int(self._started_on is None or not self.is_whole(cluster, self.number))

    def step(self, cluster: Cluster) -> None:
        """What the operator does with a job that is not suspended and has not ended."""
        if self.has_failed or not self.is_admitted or self._is_retrying:
            self._started_on = self._silent_since = None
            self._end(cluster, self.number)
            if self._is_retrying and not self.pods:
                self.number, self._is_retrying = self.number + 1, False
            return
        self._reconcile(cluster, self.number)
        if self._started_on is None:
            if self.is_whole(cluster, self.number):
                self._start(cluster)
            return
        head = self.head(cluster, self.number)
        if head is None:
            self._silent_since = cluster.now if self._silent_since is None else self._silent_since
            self.has_failed = cluster.now - self._silent_since >= cluster.minutes.ray_silence
            return
        self._silent_since = None
        if head is not self._started_on and self.has_redis:
            self._fail(cluster)
        elif head is not self._started_on:
            self._start(cluster)

    def _start(self, cluster: Cluster) -> None:
        self._started_on = self.head(cluster, self.number)
        self.starts += 1
        cluster.changes += 1

    def _fail(self, cluster: Cluster) -> None:
        self.failures += 1
        cluster.changes += 1
        self._is_retrying = self.failures <= self.spec["backoffLimit"]
        self.has_failed = not self._is_retrying


class RayService(_Ray):
    """Applications on the workers of a cluster; a changed template makes a second one, to which clients then go.

    That is so with the strategy NewCluster (rayservice_controller.go:868-896, 1409-1438); otherwise nothing changes.
    While there are two clusters, only the second one gets its applications from the operator (230-249): if the first
    loses its head without a Redis, it serves no more. The first is deleted after the second serves (583-640, 1256-1312).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._active, self._served = 1, True
        self._old: dict[int, int] = {}

    def _cluster_spec(self) -> Manifest:
        described: Manifest = self.spec["rayClusterConfig"]
        return described

    def roll(self) -> None:
        """Give it a new template."""
        if self.spec["upgradeStrategy"]["type"] == "NewCluster":
            self.revision += 1

    @property
    def has_rolled(self) -> bool:
        """Whether its clients are at the cluster of its template, and there is no other."""
        return self._active == self.revision and not self._old

    def unavailable(self, cluster: Cluster) -> int:
        """Workers that do not serve."""
        return self.workers - (self.ready_workers(cluster, self._active) if self._served else 0)

    def step(self, cluster: Cluster) -> None:
        """Both clusters, the change from one to the other, and the end of the old one."""
        known: Any = self._heads.get(self._active)
        self._reconcile(cluster, self._active)
        is_upgrading = self._active != self.revision
        if known is not None and self._heads[self._active][0] is not known[0] and not self.has_redis:
            self._served = False
        if is_upgrading:
            self._reconcile(cluster, self.revision)
            if self.is_whole(cluster, self.revision):
                self._old[self._active] = cluster.now + _DELETION_MINUTES
                self._active, self._served = self.revision, True
        elif not self._served and self.head(cluster, self._active) is not None:
            self._served = True
        for number, at in list(self._old.items()):
            if at <= cluster.now:
                self._end(cluster, number)
            if at <= cluster.now and not self.of_cluster(number):
                del self._old[number]
                cluster.changes += 1
