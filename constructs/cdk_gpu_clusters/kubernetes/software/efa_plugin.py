"""EFA in pods: AWS's device plugin, or its driver for dynamic resource allocation (DRA).

The device plugin gives `vpc.amazonaws.com/efa` as a number, on every Kubernetes version; the manifests of this library
ask for it. The driver gives each interface as a device with its place on PCIe, which pods ask for by a ResourceClaim;
EKS recommends it for new clusters of Kubernetes 1.34 and later. Only one of them may be there: each would give the same
interfaces away.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.software.nodes import efa_pools, tolerations
from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, SoftwareSource
from cdk_gpu_clusters.rules.kubernetes_labels import EFA_LABEL

_NAMESPACE = "kube-system"


class EfaSoftware(StrEnum):
    """How pods get EFA interfaces.

    Attributes:
        DEVICE_PLUGIN: As the resource `vpc.amazonaws.com/efa`.
        DRA_DRIVER: By a ResourceClaim of the device class `efa.networking.k8s.aws`.
    """

    DEVICE_PLUGIN = "device-plugin"
    DRA_DRIVER = "dra-driver"


def efa_software(
    pools: Sequence[NodePool],
    source: SoftwareSource | None = None,
    *,
    kind: EfaSoftware = EfaSoftware.DEVICE_PLUGIN,
) -> ChartRelease | None:
    """The chart for the EFA nodes of a cluster; None if it has none.

    Args:
        pools: Its groups of nodes.
        source: From where charts and images come.
        kind: Device plugin or DRA driver.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> release = efa_software([node_pool("train", instance_type="p5.48xlarge", node_count=2)])
        >>> release.values["supportedInstanceLabels"] if release else None
        {'keys': ['gpu-cluster/efa-count'], 'values': ['32']}
    """
    efa = efa_pools(pools)
    if not efa:
        return None
    source = source or SoftwareSource()
    plugin = kind is EfaSoftware.DEVICE_PLUGIN
    values: dict[str, Any] = {
        "image": source.repository_and_tag("aws-efa-k8s-device-plugin" if plugin else "dranet"),
        # The charts list instance types. A node of such a type may have no EFA, and a new type may not be listed.
        "supportedInstanceLabels": {
            "keys": [EFA_LABEL],
            "values": [str(count) for count in sorted({pool.efa_count for pool in efa})],
        },
        "tolerations": tolerations(efa),
    }
    return source.release("aws-efa-k8s-device-plugin" if plugin else "aws-dranet", _NAMESPACE, values)
