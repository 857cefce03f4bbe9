"""A cluster of Kubernetes that advances in minutes: nodes, pods, the scheduler and the eviction API.

It models what decides whether a drain ends, each rule as its source states it:

* Scheduler: a pod runs on a node that has its labels, tolerates its taints and has room for its requests (Kubernetes
  documentation, "Assigning Pods to Nodes", "Taints and Tolerations"). Pods are spread over nodes or packed on few.
* Zones: a group keeps as many nodes in each of its zones (Amazon EC2 Auto Scaling user guide, "Availability Zone
  distribution").
* Eviction API (Kubernetes documentation, "API-initiated Eviction" and "Specifying a Disruption Budget for your
  Application"; kubernetes v1.20.2, pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption): percentages
  are of the replicas of the controllers, rounded up. A pod that ends is not healthy. Two budgets for a pod refuse.

It has no network, no kubelet and no API: what these decide is outside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from random import Random
from typing import Any, Protocol

from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.team_quotas import node_quota
from kubernetes_pools import containers, number

Manifest = Mapping[str, Any]
#: Thousandths of a CPU, MiB, devices: whole numbers, by the name of the resource.
Amounts = Mapping[str, int]
ZONE = "topology.kubernetes.io/zone"


class DeadlockError(AssertionError):
    """Nothing happens any more, and not all pods are ready or not all operations have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Minutes:
    """How long things take.

    Attributes:
        boot: From the launch of a node until it is ready.
        start: From the placement of a pod until it is ready.
        end: From the eviction of a pod until it is gone.
        ray_silence: Until KubeRay gives up a RayJob whose head does not answer; 5 is KubeRay's own time
            (ray-project/kuberay v1.7.0, ray-operator/controllers/ray/utils/constant.go:290).
    """

    boot: int = 5
    start: int = 3
    end: int = 1
    ray_silence: int = 5


@dataclass(eq=False, slots=True)
class Pod:
    """A pod.

    Attributes:
        member: Its index in what it belongs to.
        host: The only node that it may run on.
        is_probed: Whether a readiness probe finds out that its program does not work.
        asks: Another pod, whose readiness its probe asks for.
    """

    owner: Workload
    labels: Mapping[str, str]
    requests: Amounts
    spec: Manifest
    revision: int = 1
    member: int = 0
    host: str | None = None
    node: Node | None = None
    ready_at: int | None = None
    gone_at: int | None = None
    evicted: bool = False
    is_probed: bool = True
    asks: Pod | None = None


@dataclass(eq=False, slots=True)
class Node:
    """A node with what pods may still ask for."""

    name: str
    pool: str
    labels: Mapping[str, str]
    taints: Sequence[Any]
    room: dict[str, int]
    version: int
    ready_at: int
    is_cordoned: bool = False
    pods: list[Pod] = field(default_factory=list)


class Workload(Protocol):
    """What makes pods and replaces them."""

    name: str
    pods: list[Pod]
    broken: set[int]

    @property
    def replicas(self) -> int:
        """Pods that it has when all is well."""

    def step(self, cluster: Cluster) -> None:
        """Make the pods that are missing, end those that are too many."""

    def unavailable(self, cluster: Cluster) -> int:
        """Servers, or jobs, that do not work."""


@dataclass(eq=False)
class OfManifest:
    """A workload that an object describes."""

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


@dataclass(slots=True)
class Budget:
    """A PodDisruptionBudget."""

    manifest: Manifest

    def covers(self, pod: Pod) -> bool:
        """Whether it is for this pod."""
        wanted = self.manifest["spec"]["selector"]["matchLabels"]
        return all(pod.labels.get(key) == value for key, value in wanted.items())

    def desired(self, pods: Sequence[Pod]) -> int:
        """Healthy pods that there must be."""
        spec = self.manifest["spec"]
        expected = sum(one.replicas for one in {pod.owner.name: pod.owner for pod in pods}.values())
        if "maxUnavailable" in spec:
            return max(0, expected - share(spec["maxUnavailable"], expected, ceil))
        return share(spec["minAvailable"], expected, ceil)


def share(value: int | str, of: int, rounding: Callable[[float], int]) -> int:
    """A number, or a percentage of one.

    >>> share("25%", 6, ceil), share("25%", 6, int), share(3, 6, ceil)
    (2, 1, 3)
    """
    if isinstance(value, int):
        return value
    whole, rest = divmod(of * int(value.removesuffix("%")), 100)
    return whole + rounding(rest / 100)


def amount_of(resource: str, quantity: str) -> int:
    """A quantity of Kubernetes in the units of `node_quota`: thousandths of a CPU, MiB, devices.

    >>> amount_of("cpu", "1500m"), amount_of("memory", "2Gi"), amount_of("nvidia.com/gpu", "8")
    (1500, 2048, 8)
    """
    if resource == "cpu":
        return int(number(quantity) * 1000)
    return int(quantity) if quantity.isdecimal() else int(number(quantity) / 2**20)


def requests_of(spec: Manifest) -> Amounts:
    """What the containers of a pod ask for."""
    found: dict[str, int] = {}
    for container in containers(spec["containers"]):
        for name, value in container["resources"]["requests"].items():
            found[name] = found.get(name, 0) + amount_of(name, str(value))
    return found


class Cluster:
    """Nodes, pods and their controllers; `tick` advances all of it by a minute."""

    def __init__(self, *, minutes: Minutes | None = None, packs: bool = False, seed: int = 0) -> None:
        self.minutes, self.packs, self.random = minutes or Minutes(), packs, Random(seed)
        self.now = self.changes = self._launched = 0
        self.nodes: dict[str, Node] = {}
        self.workloads: list[Workload] = []
        self.budgets: list[Budget] = []
        #: Most servers of each workload that did not work at the same time, since `watch`.
        self.worst: dict[str, int] = {}
        self._pools: dict[str, NodePool] = {}
        self._zones: dict[str, Sequence[str]] = {}
        self._room: dict[str, Amounts] = {}
        #: Budget -> the minute, and then healthy and desired pods.
        self._counted: dict[int, tuple[int, int, int]] = {}

    # Nodes

    def add_pool(self, pool: NodePool, *, room: Amounts | None = None, zones: Sequence[str] = ("a",)) -> None:
        """A group with all of its nodes, which are ready; `room` is what each leaves to pods."""
        self._pools[pool.name], self._zones[pool.name] = pool, zones
        self._room[pool.name] = node_quota(pool) if room is None else room
        for _ in range(pool.node_count):
            self.launch(pool.name, version=1).ready_at = self.now

    def launch(self, pool: str, *, version: int) -> Node:
        """A new node, which becomes ready."""
        self._launched += 1
        group, taken = self._pools[pool], [one.labels[ZONE] for one in self.of_pool(pool)]
        node = Node(
            name=f"{pool}-{self._launched}",
            pool=pool,
            labels={**group.labels, ZONE: min(self._zones[pool], key=taken.count)},
            taints=group.taints,
            room={**self._room[pool]},
            version=version,
            ready_at=self.now + self.minutes.boot,
        )
        self.nodes[node.name] = node
        self.changes += 1
        return node

    def terminate(self, node: Node) -> None:
        """A node is gone, and so are its pods, wherever they were."""
        del self.nodes[node.name]
        self.changes += 1
        for pod in list(node.pods):
            pod.evicted = True
            self._remove(pod)

    def of_pool(self, pool: str) -> list[Node]:
        """The nodes of a group."""
        return [node for node in self.nodes.values() if node.pool == pool]

    # Pods

    def is_ready(self, pod: Pod) -> bool:
        """Whether a pod takes requests."""
        return (
            pod.node is not None
            and pod.gone_at is None
            and not (pod.is_probed and pod.revision in pod.owner.broken)
            and pod.ready_at is not None
            and pod.ready_at <= self.now
            and (pod.asks is None or self.is_ready(pod.asks))
        )

    def end(self, pod: Pod) -> None:
        """A pod gets SIGTERM; one that never ran is gone at once."""
        if pod.gone_at is None:
            self.changes += 1
            pod.gone_at = self.now + (self.minutes.end if pod.node is not None else 0)

    def evict(self, pod: Pod) -> bool:
        """Ask the eviction API to end a pod.

        Returns:
            Whether it does.
        """
        if pod.gone_at is not None:
            return True
        budgets = [one for one in self.budgets if one.covers(pod)]
        if len(budgets) > 1 or (budgets and not self._allows(budgets[0], pod)):
            return False
        pod.evicted = True
        self.end(pod)
        return True

    def _allows(self, budget: Budget, pod: Pod) -> bool:
        healthy, desired = self._counts(budget)
        if not self.is_ready(pod):
            if budget.manifest["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
                return True
            if healthy >= desired > 0:
                return True
        if healthy - desired <= 0:
            return False
        self._counted[id(budget)] = (self.now, healthy - 1, desired)
        return True

    def _counts(self, budget: Budget) -> tuple[int, int]:
        """Healthy pods, and how many there must be; counted once a minute, and less those that were evicted since."""
        found = self._counted.get(id(budget))
        if found is None or found[0] != self.now:
            covered = [one for workload in self.workloads for one in workload.pods if budget.covers(one)]
            found = self.now, sum(map(self.is_ready, covered)), budget.desired(covered)
            self._counted[id(budget)] = found
        return found[1:]

    def _remove(self, pod: Pod) -> None:
        self.changes += 1
        if pod.node is not None:
            pod.node.pods.remove(pod)
            for name, amount in pod.requests.items():
                pod.node.room[name] += amount
        pod.owner.pods.remove(pod)

    # Time

    def watch(self) -> None:
        """Count from now on how many servers do not work at the same time."""
        self.worst = {one.name: 0 for one in self.workloads}

    def tick(self) -> None:
        """A minute passes."""
        self.now += 1
        for workload in self.workloads:
            for pod in [one for one in workload.pods if one.gone_at is not None and one.gone_at <= self.now]:
                self._remove(pod)
        for workload in self.workloads:
            workload.step(self)
        self._schedule()
        self._notice()

    def _notice(self) -> None:
        for one in self.workloads:
            if one.name in self.worst:
                self.worst[one.name] = max(self.worst[one.name], one.unavailable(self))

    def _schedule(self) -> None:
        waiting = [pod for one in self.workloads for pod in one.pods if pod.node is None and pod.gone_at is None]
        if not waiting:
            return
        nodes = list(self.nodes.values())
        self.random.shuffle(nodes)
        self.random.shuffle(waiting)
        for pod in waiting:
            fitting = [node for node in nodes if self.fits(node, pod)]
            if fitting:
                self._place(pod, (max if self.packs else min)(fitting, key=lambda node: len(node.pods)))

    def fits(self, node: Node, pod: Pod) -> bool:
        """Whether the scheduler may place a pod on a node."""
        return (
            node.ready_at <= self.now
            and not node.is_cordoned
            and pod.host in {None, node.name}
            and all(node.room.get(name, 0) >= amount for name, amount in pod.requests.items())
            and all(node.labels.get(key) == value for key, value in pod.spec.get("nodeSelector", {}).items())
            and has_affinity(pod.spec, node.labels)
            and all(_tolerates(pod.spec.get("tolerations", ()), taint) for taint in node.taints)
        )

    def _place(self, pod: Pod, node: Node) -> None:
        self.changes += 1
        pod.node, pod.ready_at = node, self.now + self.minutes.start
        node.pods.append(pod)
        for name, amount in pod.requests.items():
            node.room[name] -= amount

    @property
    def is_whole(self) -> bool:
        """Whether every workload works in full."""
        return all(
            one.unavailable(self) == 0 and all(pod.gone_at is None for pod in one.pods) for one in self.workloads
        )


def has_affinity(spec: Manifest, labels: Mapping[str, str]) -> bool:
    """Whether one of the terms that a pod requires fits a node. Only keys that must not be there are known."""
    wanted = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if wanted is None:
        return True
    terms = [term["matchExpressions"] for term in wanted["nodeSelectorTerms"]]
    assert {one["operator"] for term in terms for one in term} == {"DoesNotExist"}
    return any(all(one["key"] not in labels for one in term) for term in terms)


def _tolerates(tolerations: Iterable[Manifest], taint: Any) -> bool:
    return any(
        (
            one["key"] == taint.key
            and one.get("value") == taint.value
            and one.get("effect", taint.effect) == taint.effect
        )
        or (one["key"] == taint.key and one.get("operator") == "Exists")
        for one in tolerations
    )
