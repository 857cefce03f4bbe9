"""All software that a cluster of GPUs needs beside the add-ons of EKS, in the order in which it is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdk_gpu_clusters.catalogue.kubernetes import DEFAULT_KUBERNETES_VERSION, kubernetes_versions
from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for
from cdk_gpu_clusters.kubernetes.compute_domain import (
    CHANNEL_CLASS,
    CHANNEL_RESOURCE,
    check_domains_version,
    in_ultraservers,
)
from cdk_gpu_clusters.kubernetes.gpu_pod import EFA_CLASS, EFA_RESOURCE
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.software.charts import (
    EfaSoftware,
    dcgm_exporter,
    device_plugin,
    dra_driver,
    efa_pools,
    efa_software,
    jobset,
    kuberay,
    kueue,
    leader_worker_set,
)
from cdk_gpu_clusters.kubernetes.software.charts import argo_workflows as argo
from cdk_gpu_clusters.kubernetes.software.charts import trainer as kubeflow_trainer
from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, ImageMirror, SoftwareSource


def cluster_software(
    pools: Sequence[NodePool],
    *,
    kubernetes_version: str = DEFAULT_KUBERNETES_VERSION,
    efa: EfaSoftware = EfaSoftware.DEVICE_PLUGIN,
    trainer: bool = False,
    argo_workflows: bool = False,
    ray: bool = False,
    fair_sharing: bool = False,
    compute_domains: bool = False,
    service_monitor: bool = False,
    mirror: ImageMirror | None = None,
    region: str | None = None,
) -> tuple[ChartRelease, ...]:
    """The releases of a cluster: what shows its devices first, then what schedules jobs.

    Args:
        pools: Groups of nodes of the cluster. Without GPUs or EFA in any of them their software is left out.
        kubernetes_version: Version of the cluster.
        efa: How pods get EFA interfaces. `torchrun_job`, `nccl_test`, `multi_node_model` and `RayPods` have the same
            choice; nodes of Slurm ask for the resource of the device plugin.
        trainer: Whether to install Kubeflow Trainer.
        argo_workflows: Whether to install Argo Workflows.
        ray: Whether to install KubeRay's operator, and to queue its kinds.
        fair_sharing: Whether teams share by weight what is idle: `kubernetes.queues.queues(..., teams=...)`.
        compute_domains: Whether to install NVIDIA's DRA driver for the ComputeDomains of UltraServers. The device
            plugin still advertises the GPUs. Without UltraServers in the pools the driver is left out.
        service_monitor: Whether the DCGM exporter gets a ServiceMonitor, a kind of the Prometheus Operator.
        mirror: Registries of a closed network, which hold copies of every chart and image.
        region: Region whose EKS registry serves AWS's images; the one that AWS's charts name if left out.

    Returns:
        The releases, in the order in which they are installed.

    Raises:
        ConfigError: GPU-K8S-020 to -022, GPU-IMEX-003.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pools = [node_pool("train", instance_type="p5.48xlarge", node_count=2)]
        >>> [release.name for release in cluster_software(pools)]
        ['nvidia-device-plugin', 'aws-efa-k8s-device-plugin', 'dcgm-exporter', 'jobset', 'lws', 'kueue']
    """
    raise_for(
        check_software(
            pools, kubernetes_version=kubernetes_version, efa=efa, compute_domains=compute_domains, mirror=mirror
        )
    )
    source = SoftwareSource(mirror=mirror, region=region)
    driver = dra_driver(pools, source) if compute_domains else None
    classes = {} if driver is None else {CHANNEL_CLASS: CHANNEL_RESOURCE}
    if efa is EfaSoftware.DRA_DRIVER and efa_pools(pools):
        # A claim counts against the quota that the device plugin's resource has.
        classes[EFA_CLASS] = EFA_RESOURCE
    releases = [
        device_plugin(pools, source),
        driver,
        efa_software(pools, source, kind=efa),
        dcgm_exporter(pools, source, service_monitor=service_monitor),
        jobset(source),
        leader_worker_set(source),
        kubeflow_trainer(source) if trainer else None,
        argo(source) if argo_workflows else None,
        kuberay(source) if ray else None,
        # Last: while its webhook is not served, no Job can be made in most namespaces.
        kueue(source, trainer=trainer, ray=ray, fair_sharing=fair_sharing, device_classes=classes),
    ]
    return tuple(release for release in releases if release is not None)


_DRA_SINCE = (1, 34)

DRA_VERSION = define_rule(
    "GPU-K8S-020",
    "the EFA DRA driver runs on Kubernetes 1.34 and later",
    source='Amazon EKS user guide, "Manage EFA devices on Amazon EKS": minimum Kubernetes version (read 2026-11-22)',
)
IMAGE_REGISTRY = define_rule(
    "GPU-K8S-021",
    "a registry of mirrored images is a host, and a path if need be, without a scheme",
    source="distribution/reference, the grammar of image references",
)
CHART_REGISTRY = define_rule(
    "GPU-K8S-022",
    "mirrored charts lie below an oci:// address",
    source="helm.sh, Use OCI-based registries; Amazon ECR user guide, Pushing a Helm chart",
)


@check
def check_efa_driver(kubernetes_version: str) -> Iterator[Finding]:
    """Find a version of Kubernetes on which AWS's DRA driver for EFA does not run.

    Args:
        kubernetes_version: Version of the cluster, such as `1.35`.
    """
    if _minor(kubernetes_version) < _DRA_SINCE:
        yield DRA_VERSION.finding(
            cause="its objects are of resource.k8s.io/v1, which the cluster does not know",
            got=f"Kubernetes {kubernetes_version}",
            allowed=", ".join(one.version for one in kubernetes_versions() if one.minor >= _DRA_SINCE),
            fix="take the EFA device plugin, or a later Kubernetes version",
            path="efa",
        )


@check
def check_software(
    pools: Sequence[NodePool],
    *,
    kubernetes_version: str,
    efa: EfaSoftware = EfaSoftware.DEVICE_PLUGIN,
    compute_domains: bool = False,
    mirror: ImageMirror | None = None,
) -> Iterator[Finding]:
    """Find what cannot work.

    Returns:
        Findings GPU-K8S-020 to -022, GPU-IMEX-003.
    """
    if efa is EfaSoftware.DRA_DRIVER and efa_pools(pools):
        yield from check_efa_driver(kubernetes_version)
    if compute_domains and any(in_ultraservers(pool) for pool in pools):
        yield from check_domains_version(kubernetes_version)
    if mirror is not None:
        yield from _check_mirror(mirror)


def _check_mirror(mirror: ImageMirror) -> Iterator[Finding]:
    if "://" in mirror.images or not mirror.images.strip("/") or mirror.images.endswith("/"):
        yield IMAGE_REGISTRY.finding(
            cause="no pod could name an image of it",
            got=repr(mirror.images),
            allowed="such as 111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror",
            fix="leave out the scheme and the last slash",
            path="mirror.images",
        )
    scheme, separator, place = mirror.charts.partition("://")
    if (scheme, separator) != ("oci", "://") or not place or place.endswith("/"):
        yield CHART_REGISTRY.finding(
            cause="Helm could not pull a chart from it",
            got=repr(mirror.charts),
            allowed="such as oci://111122223333.dkr.ecr.us-east-1.amazonaws.com/charts",
            fix="give the address below which the charts were pushed, without the last slash",
            path="mirror.charts",
        )


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
