"""What people, Amazon EKS and Karpenter do to nodes: each is an operation that advances by the minute.

* A managed node group is updated as the Amazon EKS user guide states it, "Understand each phase of node updates"
  (awsdocs/amazon-eks-user-guide @ 0bfeeaf). The page does not say whether EKS waits for the node that takes the place
  of an old one before it drains the next, so both are simulated (`waits_for_nodes`). It states a cordon after the
  eviction, and one of all old nodes in the scale up phase. Without one before the eviction the pods of a full group would
  return to their node, so it is taken for granted where there is no scale up phase, too.
* Karpenter replaces a drifted node: it launches the new one first, within the limit of the pool, then drains the old
  one by the eviction API, without a deadline (Karpenter documentation, "Disruption": control flow, budgets, static
  capacity).
* `kubectl drain` waits until the node is empty (Kubernetes documentation, "Safely Drain a Node"). A node that is
  rebooted, or repaired, returns and is uncordoned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kube_simulation.cluster import ZONE, Cluster, DeadlockError, Manifest, Node, Workload
from kube_simulation.workloads import Gang

#: From the drain of a node until EKS ends the update with PodEvictionFailure.
EKS_PATIENCE_MINUTES = 15
#: How an operation ends that succeeds; others name the error of EKS.
DONE = "done"
#: Between the last pod and the termination of the node.
_EKS_PAUSE_MINUTES = 1
_TOO_LONG_MINUTES = 60 * 24 * 60
_QUIET_MINUTES = 180


class Operation(Protocol):
    """Something that is done to the cluster."""

    #: How it ended; None while it runs.
    result: str | None

    def step(self, cluster: Cluster) -> None:
        """What happens in a minute."""


def drain(cluster: Cluster, node: Node) -> bool:
    """Cordon a node and ask for the eviction of its pods.

    Returns:
        Whether it is empty.
    """
    if not node.is_cordoned:
        node.is_cordoned = True
        cluster.changes += 1
    for pod in list(node.pods):
        if pod.gone_at is None and cluster.evict(pod) and isinstance(pod.owner, Gang):
            pod.owner.count_disruption(pod)
    return not node.pods


@dataclass(slots=True)
class Maintenance:
    """Someone drains some nodes at once, without a deadline; each is back after the time of a boot."""

    nodes: Sequence[Node]
    result: str | None = None
    _back_at: dict[str, int] = field(default_factory=dict)

    def step(self, cluster: Cluster) -> None:
        """Drain; wait; uncordon."""
        for node in self.nodes:
            if node.name in self._back_at:
                if node.is_cordoned and self._back_at[node.name] <= cluster.now:
                    node.is_cordoned = False
                    cluster.changes += 1
            elif drain(cluster, node):
                self._back_at[node.name] = cluster.now + cluster.minutes.boot
                cluster.changes += 1
        if len(self._back_at) == len(self.nodes) and not any(node.is_cordoned for node in self.nodes):
            self.result = DONE


@dataclass(slots=True)
class ManagedUpdate:
    """EKS updates a managed node group.

    Attributes:
        pool: Its name.
        max_unavailable: Nodes that are replaced at once.
        minimal: Whether old nodes go first.
        zones: Zones of its subnets.
        most_nodes: Nodes for which there is capacity, None for any number.
        waits_for_nodes: Whether the next nodes are drained only when those before are replaced and ready.
    """

    pool: str
    max_unavailable: int = 1
    minimal: bool = False
    zones: int = 1
    most_nodes: int | None = None
    waits_for_nodes: bool = True
    result: str | None = None
    _size: int = 0
    _surge: int = 0
    _old: list[Node] = field(default_factory=list)
    _draining: dict[str, int] = field(default_factory=dict)
    _empty_at: dict[str, int] = field(default_factory=dict)
    _started: bool = False
    _scaling_down: bool = False

    def step(self, cluster: Cluster) -> None:
        """The phases, one after the other."""
        if not self._started:
            self._start(cluster)
        elif self._scaling_down:
            self._scale_down(cluster)
        elif self._is_waiting(cluster):
            return
        else:
            self._upgrade(cluster)

    def _start(self, cluster: Cluster) -> None:
        """The scale up phase: new nodes beside the old ones, which are then cordoned."""
        self._started, self._old = True, cluster.of_pool(self.pool)
        self._size = len(self._old)
        if self.minimal:
            return
        self._surge = max(2 * self.zones, self.max_unavailable)
        if self.most_nodes is not None and self._size + self._surge > self.most_nodes:
            self.result = "NodeCreationFailure"
            return
        for _ in range(self._surge):
            cluster.launch(self.pool, version=2)

    def _is_waiting(self, cluster: Cluster) -> bool:
        coming = any(node.ready_at > cluster.now for node in cluster.of_pool(self.pool))
        is_first = not self.minimal and not any(node.is_cordoned for node in self._old)
        if coming and (self.waits_for_nodes or is_first):
            return True
        if is_first:
            for node in self._old:
                node.is_cordoned = True
            cluster.changes += 1
        return False

    def _upgrade(self, cluster: Cluster) -> None:
        left = [node for node in self._old if node.name in cluster.nodes]
        if not left:
            self._scaling_down = True
            return
        if not self._draining:
            chosen = cluster.random.sample(left, min(self.max_unavailable, len(left)))
            self._draining = {node.name: cluster.now for node in chosen}
        for name, since in list(self._draining.items()):
            node = cluster.nodes[name]
            if name in self._empty_at:
                if cluster.now - self._empty_at[name] >= _EKS_PAUSE_MINUTES:
                    self._terminate(cluster, node)
            elif drain(cluster, node):
                self._empty_at[name] = cluster.now
                cluster.changes += 1
            elif cluster.now - since >= EKS_PATIENCE_MINUTES:
                self.result = "PodEvictionFailure"
                return

    def _terminate(self, cluster: Cluster, node: Node) -> None:
        """The Auto Scaling group replaces what is missing of its size."""
        del self._draining[node.name]
        cluster.terminate(node)
        if len(cluster.of_pool(self.pool)) < self._size + self._surge:
            cluster.launch(self.pool, version=2)

    def _scale_down(self, cluster: Cluster) -> None:
        """One node after the other goes, until the group has its size again; its pods have 15 minutes."""
        nodes = cluster.of_pool(self.pool)
        if self._draining:
            ((name, since),) = self._draining.items()
            node = cluster.nodes[name]
            if drain(cluster, node) or cluster.now - since >= EKS_PATIENCE_MINUTES:
                self._draining = {}
                cluster.terminate(node)
        elif len(nodes) <= self._size:
            self.result = DONE
        else:
            in_zone = [node.labels[ZONE] for node in nodes]
            fullest = max(in_zone, key=in_zone.count)
            chosen = cluster.random.choice([node for node in nodes if node.labels[ZONE] == fullest])
            self._draining = {chosen.name: cluster.now}


@dataclass(slots=True)
class KarpenterDrift:
    """Karpenter replaces the nodes of a static pool.

    Attributes:
        pool: Name of the group.
        budget: Nodes that its budget lets it replace at once.
        limit: Most nodes of the pool.
        most_nodes: Nodes for which there is capacity, None for any number.
    """

    pool: str
    budget: int
    limit: int
    most_nodes: int | None = None
    result: str | None = None

    @classmethod
    def of(cls, node_pool: Manifest, *, pool: str, most_nodes: int | None = None) -> KarpenterDrift:
        """What a NodePool says of it."""
        spec = node_pool["spec"]
        budgets = [int(one["nodes"]) for one in spec["disruption"]["budgets"] if "Drifted" in one["reasons"]]
        return cls(pool, budget=min(budgets), limit=int(spec["limits"]["nodes"]), most_nodes=most_nodes)

    _started: bool = False
    _old: list[Node] = field(default_factory=list)
    #: Old node -> the new one that takes its place.
    _pairs: dict[str, str] = field(default_factory=dict)

    def step(self, cluster: Cluster) -> None:
        """Launch, wait, drain, end."""
        if not self._started:
            self._started, self._old = True, cluster.of_pool(self.pool)
        left = [node for node in self._old if node.name in cluster.nodes]
        if not left:
            self.result = DONE
            return
        most = self.limit if self.most_nodes is None else min(self.limit, self.most_nodes)
        for node in left:
            is_free = node.name not in self._pairs and len(self._pairs) < self.budget
            if is_free and len(cluster.of_pool(self.pool)) < most:
                self._pairs[node.name] = cluster.launch(self.pool, version=2).name
        for old, new in list(self._pairs.items()):
            if cluster.nodes[new].ready_at <= cluster.now and drain(cluster, cluster.nodes[old]):
                cluster.terminate(cluster.nodes[old])
                del self._pairs[old]


class Rolling(Workload, Protocol):
    """A workload with versions."""

    @property
    def has_rolled(self) -> bool:
        """Whether all of its pods are of its version."""

    def roll(self) -> None:
        """Give it a new version."""


@dataclass(slots=True)
class Rollout:
    """A new version of a workload is applied; its pods never become ready if it is broken, until it is taken back."""

    workload: Rolling
    result: str | None = None
    _started: bool = False

    def step(self, cluster: Cluster) -> None:
        """Apply it, and wait until all pods are of it."""
        if not self._started:
            self._started = True
            self.workload.roll()
            cluster.changes += 1
        elif self.workload.has_rolled and self.workload.unavailable(cluster) == 0:
            self.result = DONE


def settle(cluster: Cluster) -> None:
    """Advance until every workload works, and count unavailable servers from then on.

    Raises:
        DeadlockError: Some workload never does.
    """
    perform(cluster, ())
    cluster.watch()


def perform(cluster: Cluster, operations: Iterable[Operation], *, until_whole: bool = True) -> list[str | None]:
    """Advance until all operations have ended and every workload works again, or one of the operations fails.

    Args:
        cluster: The cluster.
        operations: What is done, at the same time.
        until_whole: Whether workloads must work in the end.

    Returns:
        How each ended.

    Raises:
        DeadlockError: Nothing happens for three hours, or it takes two months.
    """
    running = list(operations)
    seen, quiet_since, began = cluster.changes, cluster.now, cluster.now
    while any(one.result is None for one in running) or (until_whole and not cluster.is_whole):
        cluster.tick()
        for one in running:
            if one.result is None:
                one.step(cluster)
        if any(one.result not in {None, DONE} for one in running):
            break
        if cluster.changes != seen:
            seen, quiet_since = cluster.changes, cluster.now
        if cluster.now - quiet_since > _QUIET_MINUTES or cluster.now - began > _TOO_LONG_MINUTES:
            raise DeadlockError(_standstill(cluster, running))
    return [one.result for one in running]


def _standstill(cluster: Cluster, operations: Iterable[Operation]) -> str:
    waiting = [f"{one.name}: {one.unavailable(cluster)} unavailable" for one in cluster.workloads]
    stuck = [type(one).__name__ for one in operations if one.result is None]
    cordoned = [node.name for node in cluster.nodes.values() if node.is_cordoned]
    return f"nothing happens at minute {cluster.now}: {waiting}, {stuck}, cordoned {cordoned}"
