"""What every pod on GPU nodes has: where it may run, what it takes of a node, and NCCL's variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from cdk_gpu_clusters.catalogue import AcceleratorKind
from cdk_gpu_clusters.catalogue.nccl import nccl_variables
from cdk_gpu_clusters.kubernetes.allocatable import allocatable
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.rules.mig import WHOLE_GPU_RESOURCE

#: What AWS's device plugin calls an EFA interface (Amazon EKS user guide, "Run machine learning training on Amazon EKS
#: with EFA").
EFA_RESOURCE = "vpc.amazonaws.com/efa"
#: What Kubernetes calls huge pages of 2 MiB.
HUGE_PAGES_RESOURCE = "hugepages-2Mi"
_SHM = "shared-memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """What a pod takes of a node.

    Attributes:
        resource: Name of its accelerators in Kubernetes.
        count: How many of them; 0 for a pod without.
        part: Part of the node's CPU and memory that goes with them.
        efa_count: EFA interfaces.
    """

    resource: str
    count: int
    part: Fraction
    efa_count: int = 0


def whole_node(pool: NodePool) -> NodeShare:
    """All that a node of a group with whole accelerators has.

    Args:
        pool: The group.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> share = whole_node(node_pool("trainers", instance_type="p5.48xlarge", node_count=16))
        >>> share.resource, share.count, share.efa_count
        ('nvidia.com/gpu', 8, 32)
    """
    ((resource, count),) = pool.resources.items() or ((WHOLE_GPU_RESOURCE, 0),)
    return NodeShare(resource=resource, count=count, part=Fraction(1), efa_count=pool.efa_count)


def pod_resources(pool: NodePool, share: NodeShare) -> dict[str, dict[str, str]]:
    """The requests and limits of a container.

    CPU has no limit: what others leave may be used. Memory, huge pages and devices have the same limit as request, as
    Kubernetes demands it of the latter two.

    Args:
        pool: The group.
        share: What the container takes of a node.
    """
    room = allocatable(pool)
    fixed = {"memory": f"{int(room.memory_mib * share.part)}Mi"}
    if share.efa_count:
        fixed[HUGE_PAGES_RESOURCE] = f"{room.huge_pages_mib}Mi"
    if share.count:
        fixed[share.resource] = str(share.count)
    if share.efa_count:
        fixed[EFA_RESOURCE] = str(share.efa_count)
    return {"requests": {"cpu": f"{int(room.cpu_millicores * share.part)}m", **fixed}, "limits": fixed}


def memory_mib(pool: NodePool, share: NodeShare) -> int:
    """Memory in MiB of a pod."""
    return int(allocatable(pool).memory_mib * share.part)


def placement(pool: NodePool) -> dict[str, Any]:
    """The fields of a pod that bring it to the nodes of a group, and no other pod with it."""
    return {
        "nodeSelector": pool.node_selector,
        "tolerations": [
            {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
            for taint in pool.taints
        ],
    }


def nccl_environment(pool: NodePool, share: NodeShare) -> dict[str, str]:
    """NCCL's and libfabric's variables for a pod: a container does not see those of its node.

    Args:
        pool: Group of its nodes.
        share: What it takes of a node; with one GPU and no EFA it has nothing to exchange.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=16)
        >>> nccl_environment(pool, whole_node(pool))
        {'FI_PROVIDER': 'efa', 'NCCL_SOCKET_IFNAME': '^docker,lo,veth'}
    """
    accelerator = pool.instance_type.accelerator
    is_alone = share.count < 2 and not share.efa_count
    if is_alone or accelerator is None or accelerator.kind is not AcceleratorKind.GPU:
        return {}
    family, efa = pool.instance_type.family, share.efa_count > 0
    return {one.name: one.value for one in nccl_variables() if one.is_for(family=family, efa=efa)}


def memory_lock(pool: NodePool) -> dict[str, Any]:
    """The capability by which a container locks memory for EFA; nothing without EFA.

    The limit itself is lifted on the node, where the container runtime starts (`DefaultLimitMEMLOCK` of systemd).
    """
    return {"capabilities": {"add": ["IPC_LOCK"]}} if pool.efa_count else {}


def plain_variables(variables: Mapping[str, str]) -> list[dict[str, str]]:
    """Variables as a container has them."""
    return [{"name": name, "value": value} for name, value in variables.items()]


def shared_memory(size_mib: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A volume of memory at /dev/shm, and its mount; it counts towards the memory of the pod.

    Args:
        size_mib: The most that it takes.
    """
    volume = {"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": f"{size_mib}Mi"}}
    return volume, {"name": _SHM, "mountPath": "/dev/shm"}  # noqa: S108 - where programs expect shared memory
