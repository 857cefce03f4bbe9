"""Charts of programs that launch and end nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdk_gpu_clusters.catalogue import AcceleratorKind
from cdk_gpu_clusters.catalogue.kubernetes import image
from cdk_gpu_clusters.kubernetes.gpu_pod import EFA_RESOURCE, HUGE_PAGES_RESOURCE, KERNEL_PART, allocatable
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
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


#: Where the pod of the Cluster Autoscaler is, and its service account.
AUTOSCALER_NAMESPACE, AUTOSCALER_ACCOUNT = "kube-system", "cluster-autoscaler"
# kubernetes/autoscaler @ 55c37cd, cluster-autoscaler/cloudprovider/aws/aws_manager.go:
# extractAllocatableResourcesFromTags.
_RESOURCE_TAG = "k8s.io/cluster-autoscaler/node-template/resources/"
_GPU_LABEL = "k8s.amazonaws.com/accelerator"
# The least that its threshold of utilization distinguishes from an empty node: one pod of a job keeps its node.
_ALMOST_EMPTY = "0.01"


def scale_from_zero_tags(pool: NodePool) -> dict[str, str]:
    """Tags of a managed node group that tell the Cluster Autoscaler what its nodes have, before there is one.

    It reads CPU, memory and GPUs from the instance type, and labels and taints from the node group. EFA interfaces,
    huge pages, Neuron devices and slices of MIG it reads from tags of the node group, by `eks:DescribeNodegroup`.

    Args:
        pool: The group.

    Source: kubernetes/autoscaler @ 55c37cd, cluster-autoscaler/cloudprovider/aws/aws_manager.go,
    buildNodeFromTemplate; managed_nodegroup_cache.go (read 2026-11-27).

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> tags = scale_from_zero_tags(node_pool("jobs", instance_type="p5.48xlarge", node_count=4))
        >>> tags["k8s.io/cluster-autoscaler/node-template/resources/vpc.amazonaws.com/efa"]
        '32'
    """
    found = {name: str(count) for name, count in pool.resources.items()}
    if pool.efa_count:
        found[EFA_RESOURCE] = str(pool.efa_count)
    huge_pages = allocatable(pool).huge_pages_mib
    if huge_pages:
        found[HUGE_PAGES_RESOURCE] = f"{huge_pages}Mi"
    return {f"{_RESOURCE_TAG}{name}": value for name, value in found.items()}


def scale_from_zero_labels(pool: NodePool) -> dict[str, str]:
    """The label by which the Cluster Autoscaler knows that a node without GPUs waits for the device plugin.

    Args:
        pool: The group.

    Source: kubernetes/autoscaler @ 55c37cd, cluster-autoscaler/cloudprovider/aws/README.md, "Special note on GPU
    instances" (read 2026-11-27).

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> scale_from_zero_labels(node_pool("jobs", instance_type="g6e.xlarge", node_count=4))
        {'k8s.amazonaws.com/accelerator': 'l40s'}
    """
    accelerator = pool.instance_type.accelerator
    if accelerator is None or accelerator.kind is not AcceleratorKind.GPU:
        return {}
    return {_GPU_LABEL: accelerator.name.replace(" ", "-").lower()}


def cluster_autoscaler_chart(
    *,
    cluster_name: str,
    groups: Sequence[Mapping[str, str]],
    region: str,
    mirror: ImageMirror | None = None,
) -> ChartRelease:
    """The chart of the Cluster Autoscaler for some managed node groups, and no others.

    EKS tags every managed node group for its auto-discovery (Amazon EKS user guide, "Managed node groups"). Groups of
    a fixed size, which a state machine fills, must not be among those that it ends nodes of.

    Args:
        cluster_name: Name of the cluster; may be a CDK token.
        groups: Tags of the Auto Scaling group of each, one at least; values may be CDK tokens.
        region: Region of the cluster; may be a CDK token.
        mirror: Registries of a closed network, which hold copies of chart and image.

    Example:
        >>> group = {"eks:nodegroup-name": "jobs"}
        >>> release = cluster_autoscaler_chart(cluster_name="research", groups=[group], region="us-east-1")
        >>> release.values["autoDiscovery"]["tags"]
        ['eks:nodegroup-name=jobs']
    """
    source = SoftwareSource(mirror=mirror)
    first, *others = ([f"{key}={value}" for key, value in tags.items()] for tags in groups)
    values: dict[str, Any] = {
        "fullnameOverride": "cluster-autoscaler",
        "image": source.repository_and_tag("cluster-autoscaler"),
        "cloudProvider": "aws",
        "awsRegion": region,
        "rbac": {"serviceAccount": {"name": AUTOSCALER_ACCOUNT}},
        # Its own example for AWS asks for as much (cloudprovider/aws/examples/cluster-autoscaler-autodiscover.yaml).
        "resources": {"requests": {"cpu": "100m", "memory": "600Mi"}, "limits": {"memory": "600Mi"}},
        # The chart takes one set of tags, and makes no Deployment without a name.
        "autoDiscovery": {"clusterName": cluster_name, "tags": first},
        "customArgs": [
            *(f"--node-group-auto-discovery=asg:tag={','.join(tags)}" for tags in others),
            # Nodes with pods of jobs stay; pods of DaemonSets do not count.
            "--ignore-daemonsets-utilization=true",
            f"--scale-down-utilization-threshold={_ALMOST_EMPTY}",
            f"--scale-down-gpu-utilization-threshold={_ALMOST_EMPTY}",
        ],
    }
    return source.release("cluster-autoscaler", AUTOSCALER_NAMESPACE, values)
