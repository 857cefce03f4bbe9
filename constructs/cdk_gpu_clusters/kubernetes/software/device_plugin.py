"""NVIDIA's device plugin with GPU feature discovery: GPUs and slices become resources and labels of their nodes.

Nodes of different MIG strategy live in one cluster: the chart holds a configuration for each, and a node takes the one
that its label `nvidia.com/device-plugin.config` names, which node groups of this library carry
(NVIDIA/k8s-device-plugin @ 1b826ac, README, "Updating per-node configuration with a node label", and the chart's
`config.map`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.software.nodes import GPU_NODES, gpu_pools, tolerations
from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, SoftwareSource
from cdk_gpu_clusters.rules.kubernetes_labels import device_plugin_config
from cdk_gpu_clusters.rules.mig_strategy import MigStrategy

_NAMESPACE = "nvidia-device-plugin"


def device_plugin(pools: Sequence[NodePool], source: SoftwareSource | None = None) -> ChartRelease | None:
    """The chart for the GPU nodes of a cluster; None if it has none.

    Args:
        pools: Its groups of nodes.
        source: From where charts and images come.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> release = device_plugin([node_pool("dev", instance_type="g5.xlarge", node_count=1)])
        >>> release.values["config"]["default"] if release else None
        'mig-none'
    """
    gpus = gpu_pools(pools)
    if not gpus:
        return None
    source = source or SoftwareSource()
    values: dict[str, Any] = {
        "config": {
            "map": {device_plugin_config(strategy): _config(strategy) for strategy in MigStrategy},
            "default": device_plugin_config(MigStrategy.NONE),
        },
        # It would take EFA devices for those of Mellanox (0.19 and later, AWS's EFA page for EKS).
        "mofedEnabled": False,
        "image": source.repository_and_tag("k8s-device-plugin"),
        # The chart's own terms wait for labels of node feature discovery; a list replaces them.
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_gpu_term()]}
            }
        },
        "tolerations": tolerations(gpus),
        "gfd": {"enabled": True},
        # Its worker carries the labels of GPU feature discovery to the node. The chart lets it tolerate the taint
        # nvidia.com/gpu=present only.
        "nfd": {
            "image": source.repository_and_tag("node-feature-discovery"),
            "worker": {"nodeSelector": dict(GPU_NODES), "tolerations": tolerations(gpus)},
        },
    }
    return source.release("nvidia-device-plugin", _NAMESPACE, values)


def _config(strategy: MigStrategy) -> str:
    return f"version: v1\nflags:\n  migStrategy: {strategy.value}\n"


def _gpu_term() -> dict[str, Any]:
    return {
        "matchExpressions": [
            {"key": key, "operator": "In", "values": [value]} for key, value in GPU_NODES.items()
        ]
    }
