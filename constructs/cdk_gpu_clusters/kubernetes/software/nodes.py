"""On which nodes the software of devices runs: those that have them, whatever their taints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cdk_gpu_clusters.catalogue import AcceleratorKind
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.rules.kubernetes_labels import ACCELERATOR_LABEL

#: What GPU nodes are selected by.
GPU_NODES = {ACCELERATOR_LABEL: AcceleratorKind.GPU.value}


def gpu_pools(pools: Iterable[NodePool]) -> list[NodePool]:
    """Pools whose nodes have NVIDIA GPUs."""
    return [pool for pool in pools if _kind(pool) is AcceleratorKind.GPU]


def efa_pools(pools: Iterable[NodePool]) -> list[NodePool]:
    """Pools whose nodes have EFA interfaces."""
    return [pool for pool in pools if pool.efa_count]


def tolerations(pools: Sequence[NodePool]) -> list[dict[str, str]]:
    """Tolerations of every taint of some pools, whatever its value.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> tolerations([node_pool("dev", instance_type="g5.xlarge", node_count=1)])
        [{'key': 'nvidia.com/gpu', 'operator': 'Exists', 'effect': 'NoSchedule'}]
    """
    taints = sorted({(taint.key, taint.effect) for pool in pools for taint in pool.taints})
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints]


def _kind(pool: NodePool) -> AcceleratorKind | None:
    accelerator = pool.instance_type.accelerator
    return None if accelerator is None else accelerator.kind
