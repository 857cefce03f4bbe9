"""What of the cluster software cannot work on a cluster, before anything is installed."""

from __future__ import annotations

from collections.abc import Sequence

from cdk_gpu_clusters.catalogue.kubernetes import kubernetes_versions
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.software.efa_plugin import EfaSoftware
from cdk_gpu_clusters.kubernetes.software.nodes import efa_pools
from cdk_gpu_clusters.kubernetes.software.release import ImageMirror

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


def check_software(
    pools: Sequence[NodePool],
    *,
    kubernetes_version: str,
    efa: EfaSoftware = EfaSoftware.DEVICE_PLUGIN,
    mirror: ImageMirror | None = None,
) -> list[Finding]:
    """Find what cannot work.

    Args:
        pools: Groups of nodes of the cluster.
        kubernetes_version: Version of the cluster, such as `1.35`.
        efa: How pods get EFA interfaces.
        mirror: Registries of a closed network.

    Returns:
        Findings GPU-K8S-020 to -022.
    """
    findings: list[Finding] = []
    if efa is EfaSoftware.DRA_DRIVER and efa_pools(pools) and _minor(kubernetes_version) < _DRA_SINCE:
        findings.append(
            DRA_VERSION.finding(
                cause="its objects are of resource.k8s.io/v1, which the cluster does not know",
                got=f"Kubernetes {kubernetes_version}",
                allowed=", ".join(one.version for one in kubernetes_versions() if one.minor >= _DRA_SINCE),
                fix="take the EFA device plugin, or a later Kubernetes version",
                path="efa",
            )
        )
    return findings if mirror is None else [*findings, *_check_mirror(mirror)]


def _check_mirror(mirror: ImageMirror) -> list[Finding]:
    findings: list[Finding] = []
    if "://" in mirror.images or not mirror.images.strip("/") or mirror.images.endswith("/"):
        findings.append(
            IMAGE_REGISTRY.finding(
                cause="no pod could name an image of it",
                got=repr(mirror.images),
                allowed="such as 111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror",
                fix="leave out the scheme and the last slash",
                path="mirror.images",
            )
        )
    scheme, separator, place = mirror.charts.partition("://")
    if (scheme, separator) != ("oci", "://") or not place or place.endswith("/"):
        findings.append(
            CHART_REGISTRY.finding(
                cause="Helm could not pull a chart from it",
                got=repr(mirror.charts),
                allowed="such as oci://111122223333.dkr.ecr.us-east-1.amazonaws.com/charts",
                fix="give the address below which the charts were pushed, without the last slash",
                path="mirror.charts",
            )
        )
    return findings


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
