"""Charts and manifests in a cluster of EKS, as part of a deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from cdk_gpu_clusters._cdk import ClusterConstruct
from cdk_gpu_clusters.compute.fleet_subnets import select_subnets
from cdk_gpu_clusters.kubernetes.software import ChartRelease
from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
from cdk_gpu_clusters.orchestration.eks.kubectl import Kubectl

if TYPE_CHECKING:  # takes long to load
    from aws_cdk import aws_lambda as lambda_

# A function of Lambda runs for 15 minutes; Helm has to end before it.
_HELM_TIMEOUT_MINUTES = 10
# Their pods run on nodes that may be down, or not there yet: a deployment does not wait for them.
_ON_NODES_WITH_DEVICES = frozenset(
    {"nvidia-device-plugin", "aws-efa-k8s-device-plugin", "aws-dranet", "dcgm-exporter"}
)


class KubernetesSoftware(ClusterConstruct):
    """What runs in a cluster beside the add-ons of EKS: charts and manifests, applied when the stack is deployed.

    A function in the private subnets of the cluster's network runs Helm and kubectl, so that a private endpoint is
    enough. It administers the cluster, by an access entry, or by the role of an existing cluster. Each step waits for
    the one before it, and is undone when its line goes.

    It needs `pip install "cdk-gpu-clusters[eks]"`, and ways out of its subnets: to AWS (EKS, STS, Lambda, S3, and ECR
    for charts there), and to the repositories of the charts unless they come from a mirror. `gpu-clusters manifests`
    writes the same as files, for those who apply them otherwise.

    Source: aws-cdk-lib 2.275, aws_eks_v2: KubectlProvider, HelmChart, KubernetesManifest.

    Example:
        >>> from cdk_gpu_clusters import EksGpuCluster, KubernetesSoftware
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> from cdk_gpu_clusters.kubernetes.software import cluster_software
        >>> pool = node_pool("train", instance_type="p5.48xlarge", node_count=2)
        >>> cluster = EksGpuCluster(stack, "ClusterWithSoftware", vpc=two_zone_vpc)
        >>> software = KubernetesSoftware(stack, "Software", cluster=cluster, releases=cluster_software([pool]))
        >>> namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}
        >>> manifest = software.apply("Research", [namespace])

    Attributes:
        cluster: The cluster.
        kubectl: The function that applies everything.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: IEksGpuCluster,
        releases: Iterable[ChartRelease] = (),
        vpc_subnets: ec2.SubnetSelection | None = None,
        kubectl_layer: lambda_.ILayerVersion | None = None,
    ) -> None:
        """Define the function, and install charts.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster.
            releases: Charts, in the order in which they are installed.
            vpc_subnets: Private subnets of the function; those of the control plane if left out, and the private ones
                of an existing cluster's network.
            kubectl_layer: Layer with kubectl and Helm; the one of an installed package if left out.

        Raises:
            ConfigError: GPU-EKS-027.
        """
        super().__init__(scope, construct_id)
        self.cluster: IEksGpuCluster = cluster
        self.kubectl: Kubectl = Kubectl(
            self,
            "Kubectl",
            cluster=cluster,
            subnets=cluster.subnets
            if vpc_subnets is None
            else select_subnets(cluster.vpc, vpc_subnets).subnets,
            kubectl_layer=kubectl_layer,
        )
        access = [] if self.kubectl.access is None else [self.kubectl.access]
        self._before: list[IDependable] = [*access, *cluster.workload_prerequisites]
        for release in releases:
            self.install(release)

    def install(self, release: ChartRelease) -> eks.HelmChart:
        """Install a chart, or bring it up to date; it goes when this line goes.

        Args:
            release: The chart with its values.
        """
        made = eks.HelmChart(
            self,
            release.name,
            cluster=self.kubectl.handle,
            chart=release.chart,
            release=release.name,
            repository=release.repository,
            version=release.version,
            namespace=release.namespace,
            values=dict(release.values),
            wait=release.chart not in _ON_NODES_WITH_DEVICES,
            timeout=cdk.Duration.minutes(_HELM_TIMEOUT_MINUTES),
        )
        self._after_what_was_before(made)
        return made

    def apply(self, construct_id: str, objects: Sequence[Mapping[str, Any]]) -> eks.KubernetesManifest:
        """Apply objects; all are deleted with this line.

        Of objects that go from the list only those of kinds that kubectl prunes by itself are deleted (core kinds,
        Deployments and Jobs among them; no autoscalers, disruption budgets or custom kinds). Delete others by hand, or
        apply them by a line of their own.

        Args:
            construct_id: Id below this construct.
            objects: Kubernetes objects, as their JSON has them.
        """
        made = eks.KubernetesManifest(
            self,
            construct_id,
            cluster=self.kubectl.handle,
            manifest=[dict(one) for one in objects],
            overwrite=True,  # what `install.sh` made before is taken over
        )
        self._after_what_was_before(made)
        return made

    def _after_what_was_before(self, step: Construct) -> None:
        step.node.add_dependency(*self._before)
        self._before = [step]
