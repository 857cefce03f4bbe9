"""All software that a cluster of GPUs needs beside the add-ons of EKS, in the order in which it is installed."""

from __future__ import annotations

from collections.abc import Sequence

from cdk_gpu_clusters.catalogue.kubernetes import DEFAULT_KUBERNETES_VERSION
from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.software.argo_workflows import argo_workflows as argo
from cdk_gpu_clusters.kubernetes.software.checks import check_software
from cdk_gpu_clusters.kubernetes.software.dcgm_exporter import dcgm_exporter
from cdk_gpu_clusters.kubernetes.software.device_plugin import device_plugin
from cdk_gpu_clusters.kubernetes.software.efa_plugin import EfaSoftware, efa_software
from cdk_gpu_clusters.kubernetes.software.jobset import jobset
from cdk_gpu_clusters.kubernetes.software.kueue import kueue
from cdk_gpu_clusters.kubernetes.software.leader_worker_set import leader_worker_set
from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, ImageMirror, SoftwareSource
from cdk_gpu_clusters.kubernetes.software.trainer import trainer as kubeflow_trainer


def cluster_software(
    pools: Sequence[NodePool],
    *,
    kubernetes_version: str = DEFAULT_KUBERNETES_VERSION,
    efa: EfaSoftware = EfaSoftware.DEVICE_PLUGIN,
    trainer: bool = False,
    argo_workflows: bool = False,
    service_monitor: bool = False,
    mirror: ImageMirror | None = None,
    region: str | None = None,
) -> tuple[ChartRelease, ...]:
    """The releases of a cluster: what shows its devices first, then what schedules jobs.

    Args:
        pools: Groups of nodes of the cluster. Without GPUs or EFA in any of them their software is left out.
        kubernetes_version: Version of the cluster.
        efa: How pods get EFA interfaces. The manifests of this library ask for the resource of the device plugin.
        trainer: Whether to install Kubeflow Trainer.
        argo_workflows: Whether to install Argo Workflows.
        service_monitor: Whether the DCGM exporter gets a ServiceMonitor, a kind of the Prometheus Operator.
        mirror: Registries of a closed network, which hold copies of every chart and image.
        region: Region whose EKS registry serves AWS's images; the one that AWS's charts name if left out.

    Returns:
        The releases, in the order in which they are installed.

    Raises:
        ConfigError: GPU-K8S-020 to -022.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pools = [node_pool("train", instance_type="p5.48xlarge", node_count=2)]
        >>> [release.name for release in cluster_software(pools)]
        ['nvidia-device-plugin', 'aws-efa-k8s-device-plugin', 'dcgm-exporter', 'jobset', 'lws', 'kueue']
    """
    raise_for(check_software(pools, kubernetes_version=kubernetes_version, efa=efa, mirror=mirror))
    source = SoftwareSource(mirror=mirror, region=region)
    releases = [
        device_plugin(pools, source),
        efa_software(pools, source, kind=efa),
        dcgm_exporter(pools, source, service_monitor=service_monitor),
        jobset(source),
        leader_worker_set(source),
        kubeflow_trainer(source) if trainer else None,
        argo(source) if argo_workflows else None,
        # Last: while its webhook is not served, no Job can be made in most namespaces.
        kueue(source, trainer=trainer),
    ]
    return tuple(release for release in releases if release is not None)
