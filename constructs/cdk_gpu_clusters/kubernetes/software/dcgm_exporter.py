"""NVIDIA's DCGM exporter: what GPUs and slices do, for Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdk_gpu_clusters.catalogue.kubernetes_software import DcgmField, dcgm_fields
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.software.nodes import GPU_NODES, gpu_pools, tolerations
from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, SoftwareSource

_NAMESPACE = "dcgm-exporter"
_PORT = 9400


def dcgm_exporter(
    pools: Sequence[NodePool], source: SoftwareSource | None = None, *, service_monitor: bool = False
) -> ChartRelease | None:
    """The chart for the GPU nodes of a cluster; None if it has none.

    Args:
        pools: Its groups of nodes.
        source: From where charts and images come.
        service_monitor: Whether to make a ServiceMonitor, a kind of the Prometheus Operator. The chart makes one by
            itself, and cannot be installed then where the operator is not. Pods carry the `prometheus.io` annotations
            in any case.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> from cdk_gpu_clusters.rules.mig import MigLayout
        >>> slices = MigLayout(["1g.5gb"] * 7)
        >>> pools = [node_pool("serve", instance_type="p4d.24xlarge", node_count=1, mig=slices)]
        >>> release = dcgm_exporter(pools)
        >>> "DCGM_FI_DEV_GPU_UTIL" in release.values["customMetrics"] if release else None
        False
    """
    gpus = gpu_pools(pools)
    if not gpus:
        return None
    source = source or SoftwareSource()
    values: dict[str, Any] = {
        "image": source.repository_and_tag("dcgm-exporter"),
        "customMetrics": "".join(f"{_line(one)}\n" for one in metric_fields(gpus)),
        "serviceMonitor": {"enabled": service_monitor},
        "podAnnotations": {"prometheus.io/scrape": "true", "prometheus.io/port": str(_PORT)},
        "nodeSelector": dict(GPU_NODES),
        "tolerations": tolerations(gpus),
    }
    return source.release("dcgm-exporter", _NAMESPACE, values)


def metric_fields(pools: Sequence[NodePool]) -> tuple[DcgmField, ...]:
    """Fields that some GPU of the pools has: a cluster of slices alone has no utilization, but the profiling fields.

    Args:
        pools: Groups of GPU nodes.
    """
    whole = any(pool.mig is None for pool in pools)
    return tuple(one for one in dcgm_fields() if whole or not one.whole_gpus_only)


def _line(one: DcgmField) -> str:
    return f"{one.name}, {one.kind}, {one.help}"
