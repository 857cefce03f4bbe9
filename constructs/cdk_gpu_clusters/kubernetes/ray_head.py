"""The head of a Ray cluster on Kubernetes: what it asks for, and on which nodes it runs.

It runs on nodes without accelerators, and takes no tasks and actors: a program that fills its memory would end the
cluster (Ray documentation, "Configuring the head node").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters.catalogue.kubernetes import SystemPods
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.kubernetes.gpu_pod import allocatable, placement
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL

HEAD = define_rule(
    "GPU-RAY-001",
    "the head of Ray runs on nodes without accelerators that have room for it",
    source='Ray documentation, "Configuring the head node"; a head without tasks does nothing with a GPU',
)
ARCHITECTURE = define_rule(
    "GPU-RAY-002",
    "head and workers of Ray have processors of one architecture",
    source="both run one image, and images of rayproject/ray for arm64 have tags of their own (-aarch64): Ray "
    'documentation, "Installing Ray", docker images',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RayHead:
    """The head of a Ray cluster.

    Example:
        >>> RayHead().memory_gib
        4

    Attributes:
        cpus: CPUs that it asks for. It may use more.
        memory_gib: Memory in GiB that it asks for, and that ends it if it takes more. Clusters of hundreds of nodes
            need more. Both are this library's choice. Two system nodes of m7i.xlarge have room for the defaults while
            one of them is away; two of m7i.large do not.
        pool: Group of nodes without accelerators on which it runs; nodes outside all groups, such as the system nodes
            of the cluster, if left out.
    """

    cpus: int = 1
    memory_gib: int = 4
    pool: NodePool | None = None

    @property
    def resources(self) -> dict[str, dict[str, str]]:
        """Requests and limits of its container."""
        memory = {"memory": f"{self.memory_gib}Gi"}
        return {"requests": {"cpu": str(self.cpus), **memory}, "limits": memory}

    @property
    def placement(self) -> dict[str, Any]:
        """The fields of its pod that bring it to its nodes."""
        if self.pool is not None:
            return placement(self.pool)
        # Kueue compares this key with the labels of its flavors, too: no flavor of a group takes the head.
        outside = [{"key": FLEET_LABEL, "operator": "DoesNotExist"}]
        terms = {"nodeSelectorTerms": [{"matchExpressions": outside}]}
        return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def ray_system_pods(heads: Sequence[RayHead]) -> list[SystemPods]:
    """What Ray runs on nodes outside all groups: KubeRay's operator, and the heads without a group.

    Args:
        heads: Heads that may run at once.

    Example:
        >>> [one.cpu_millicores for one in ray_system_pods([RayHead()])]
        [100, 1000]
    """
    # Kubernetes takes the limits of a container for its requests, where it states none.
    chart = "ray-project/kuberay @ 59d663a (v1.7.0), helm-chart/kuberay-operator/values.yaml: limits"
    operator = SystemPods(name="kuberay-operator", cpu_millicores=100, memory_mib=512, replicas=1, source=chart)
    own = [
        SystemPods(
            name="head of Ray",
            cpu_millicores=one.cpus * 1000,
            memory_mib=one.memory_gib * 1024,
            replicas=1,
            source="RayHead",
        )
        for one in heads
        if one.pool is None
    ]
    return [operator, *own]


@check
def check_head(head: RayHead, workers: NodePool) -> Iterator[Finding]:
    """Find a head that never starts, or that takes a GPU node for itself.

    Args:
        head: The head.
        workers: Group of the workers.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=2)
        >>> [one.id for one in check_head(RayHead(pool=pool), pool)]
        ['GPU-RAY-001']
    """
    if head.cpus < 1 or head.memory_gib < 1:
        yield HEAD.finding(
            cause="it asks for too little to start",
            got=f"{head.cpus} CPUs and {head.memory_gib} GiB",
            allowed="1 CPU and 1 GiB or more",
            path="head",
        )
    if head.pool is None:
        return
    record, room = head.pool.instance_type, allocatable(head.pool)
    if record.accelerator is not None:
        yield HEAD.finding(
            cause="the accelerators of its node would do nothing",
            got=record.name,
            allowed="a group of nodes without accelerators, or none",
            fix="leave head.pool out, or choose another group",
            path="head.pool",
        )
    elif head.cpus * 1000 > room.cpu_millicores or head.memory_gib * 1024 > room.memory_mib:
        yield HEAD.finding(
            cause=f"no node of {head.pool.name} has room for it",
            got=f"{head.cpus} CPUs and {head.memory_gib} GiB",
            allowed=f"{room.cpu_millicores // 1000} CPUs and {room.memory_mib // 1024} GiB on {record.name}",
            fix="ask for less, or choose a group of larger nodes",
            path="head",
        )
    if record.architecture is not workers.instance_type.architecture:
        yield ARCHITECTURE.finding(
            cause="an image of one architecture does not run on the other",
            got=f"{record.architecture.value} and {workers.instance_type.architecture.value}",
            allowed="one architecture, or an image of both",
            path="head.pool",
            severity=Severity.WARNING,
        )
