"""What changes in the stack that installs charts and manifests in a cluster of EKS."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters_stacks.manifests.parts import applied
from cdk_gpu_clusters_stacks.manifests.pools import node_pools, volumes
from cdk_gpu_clusters_stacks.manifests.software import kubernetes_version, releases
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork

from ._compare import Made, changed_keys
from .change_model import Change, Effect


def software_changes(stack: str, before: ClusterSpec, after: ClusterSpec) -> Iterator[Change]:
    """What changes in the stack with the software, if both files make it."""
    keys = changed_keys(_made(before), _made(after))
    if keys:
        yield Change(
            stack=stack,
            resource="",
            effect=Effect.UPDATED,
            keys=keys,
            words="charts and manifests are installed again, where they differ; what the file has no more is removed",
            nodes="pods of the software restart on running nodes; jobs go on",
            source="AWS CDK: helm upgrade and kubectl apply of its kubectl provider",
        )


def _made(spec: ClusterSpec) -> Made:
    pools = node_pools(spec, volumes(spec))
    network, existing = spec.network, spec.eks.existing
    place = (
        (network.vpc_id, network.subnet_ids, *network.service_subnets.items())
        if isinstance(network, ExistingNetwork)
        else None
    )
    return {
        "eks.software": releases(spec, pools.values()),
        "eks.kubernetes_version": kubernetes_version(spec),
        "eks.existing": existing,
        "network": place,
        "fleets": {path: manifest.objects for path, manifest in applied(spec, pools).items()},
    }
