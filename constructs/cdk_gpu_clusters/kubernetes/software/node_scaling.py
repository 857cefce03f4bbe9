"""Charts of programs that launch and end nodes."""

from __future__ import annotations

from typing import Any

from cdk_gpu_clusters.catalogue.kubernetes import image
from cdk_gpu_clusters.kubernetes.gpu_pod import KERNEL_PART
from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, ImageMirror, SoftwareSource

#: Where Karpenter's pods are, and their service account.
KARPENTER_NAMESPACE, KARPENTER_ACCOUNT = "kube-system", "karpenter"
# This library's choice: its two pods share the system nodes with all others, and pools have one type each. Karpenter's
# guide takes 1 CPU and 1Gi for a cluster of any kind; the limit of memory is from there.
_REQUESTS = {"cpu": "250m", "memory": "512Mi"}
_LIMITS = {"memory": "1Gi"}


def karpenter_chart(
    *,
    cluster_name: str,
    interruption_queue: str,
    is_isolated: bool = False,
    mirror: ImageMirror | None = None,
    region: str | None = None,
) -> ChartRelease:
    """The chart of Karpenter, with the feature gates that node pools of this library need.

    Args:
        cluster_name: Name of the cluster; may be a CDK token.
        interruption_queue: Name of the SQS queue with EC2's notices; may be a CDK token.
        is_isolated: Whether its pods reach AWS by VPC endpoints alone. It then asks for no prices.
        mirror: Registries of a closed network, which hold copies of chart and image.
        region: Region of the cluster, as for `cluster_software`.

    Example:
        >>> release = karpenter_chart(cluster_name="research", interruption_queue="research")
        >>> release.values["settings"]["featureGates"]["staticCapacity"]
        True
    """
    source, controller = SoftwareSource(mirror=mirror, region=region), image("karpenter-controller")
    values: dict[str, Any] = {
        "serviceAccount": {"name": KARPENTER_ACCOUNT},
        "controller": {
            "image": {
                "repository": source.repository(controller.name),
                "tag": controller.tag,
                "digest": controller.digest,
            },
            "resources": {"requests": _REQUESTS, "limits": _LIMITS},
        },
        "settings": {
            "clusterName": cluster_name,
            "interruptionQueue": interruption_queue,
            "isolatedVPC": is_isolated,
            # Karpenter believes in 7.5 % less than EC2 states, and jobs on all of a node would find no room.
            "vmMemoryOverheadPercent": float(KERNEL_PART),
            "featureGates": {"reservedCapacity": True, "staticCapacity": True, "nodeOverlay": True},
        },
    }
    return source.release("karpenter", KARPENTER_NAMESPACE, values)
