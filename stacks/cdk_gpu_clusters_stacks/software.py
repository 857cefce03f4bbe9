"""What a deployment installs inside Kubernetes, where the cluster file asks for it."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters.kubernetes.node_pool import LustreVolume
from cdk_gpu_clusters.orchestration.eks.software import KubernetesSoftware
from cdk_gpu_clusters_stacks.data import ExistingLustre, LustreStack, Store
from cdk_gpu_clusters_stacks.eks import EksStack, ExistingEks
from cdk_gpu_clusters_stacks.manifests.parts import applied
from cdk_gpu_clusters_stacks.manifests.pools import node_pools
from cdk_gpu_clusters_stacks.manifests.software import releases
from cdk_gpu_clusters_stacks.network import ClusterPlace
from cdk_gpu_clusters_stacks.spec.data import LustreSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec

#: kubectl does not prune it: one that stayed would go on to change the number of servers.
_SCALER = "HorizontalPodAutoscaler"


class SoftwareStack(cdk.Stack):
    """Charts, queues, volumes and model servers of a cluster on EKS: it follows the fleets, and none waits for it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: ClusterSpec,
        cluster: EksStack | ExistingEks,
        place: ClusterPlace,
        stores: Mapping[str, Store],
        env: cdk.Environment,
    ) -> None:
        """Define the stack.

        Args:
            scope: The app.
            construct_id: Id, and name of the stack.
            spec: The cluster file.
            cluster: The cluster of EKS.
            place: Network of the cluster.
            stores: Its stores by name.
            env: Account and Region.
        """
        super().__init__(scope, construct_id, env=env, description="Software of a GPU cluster on Kubernetes")
        here = place.within(self)
        pools = node_pools(spec, _volumes(self, spec, stores))
        software = KubernetesSoftware(
            self,
            "Software",
            cluster=cluster.within(self, here.vpc),
            releases=releases(spec, pools.values()),
            vpc_subnets=ec2.SubnetSelection(subnets=place.service_subnets(self) or here.subnets),
        )
        for path, manifest in applied(spec, pools).items():
            name = path.replace("/", "-")
            scalers = [one for one in manifest.objects if one["kind"] == _SCALER]
            software.apply(name, [one for one in manifest.objects if one["kind"] != _SCALER])
            if scalers:
                software.apply(f"{name}-autoscaler", scalers)


def _volumes(reader: cdk.Stack, spec: ClusterSpec, stores: Mapping[str, Store]) -> dict[str, LustreVolume]:
    """The file systems as the deployment knows them."""
    found = {}
    for name, store in stores.items():
        if isinstance(store, LustreStack | ExistingLustre):
            reached, written = store.within(reader), spec.data[name]
            found[name] = LustreVolume(
                name=name,
                file_system_id=reached.file_system_id,
                dns_name=reached.dns_name,
                mount_name=reached.mount_name,
                storage_capacity_gib=written.lustre.storage_capacity_gib
                if isinstance(written, LustreSpec)
                else None,
            )
    return found
