"""What programs in a cluster need of an account, to act on model servers by metrics of a workspace for Prometheus."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, region_of, stack_of
from cdk_gpu_clusters._template import allow
from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace
from cdk_gpu_clusters.kubernetes.software import ChartRelease, ImageMirror
from cdk_gpu_clusters.kubernetes.software.serving import (
    KEDA_ACCOUNT,
    KEDA_NAMESPACE,
    ROLLOUTS_ACCOUNT,
    ROLLOUTS_NAMESPACE,
    argo_rollouts_chart,
    keda_chart,
)
from cdk_gpu_clusters.observability.workspace import QUERY, IMetricsWorkspace
from cdk_gpu_clusters.orchestration.eks.add_ons import define_pod_role
from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
from cdk_gpu_clusters.orchestration.eks.software import KubernetesSoftware


class Keda(ClusterConstruct):
    """What KEDA needs to query a workspace of Amazon Managed Service for Prometheus; and its chart.

    Makes a role that the pod of its operator takes by EKS Pod Identity: it may query this workspace, and nothing else.
    A closed network needs the VPC endpoint `aps-workspaces`.

    Source: kedacore/keda @ 68a5b50 (v2.20.2), pkg/scalers/aws/aws_sigv4.go and aws_config_cache.go: without a role of
    its own, a TriggerAuthentication with `podIdentity.provider: aws` signs with the credentials of the operator; AWS
    managed policy AmazonPrometheusQueryAccess, here for one workspace.

    Example:
        >>> from cdk_gpu_clusters import EksGpuCluster, Keda, MetricsWorkspace
        >>> cluster = EksGpuCluster(stack, "ByQueue", vpc=two_zone_vpc)
        >>> keda = Keda(stack, "Keda", cluster=cluster, workspace=MetricsWorkspace(stack, "OfServers"))
        >>> keda.release.chart
        'keda'

    Attributes:
        role: Role of its operator.
        metrics: The workspace, as `QueueScaling` takes it.
        release: Its chart, for who installs it otherwise: a pod that starts before this construct is complete has no
            role.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: IEksGpuCluster,
        workspace: IMetricsWorkspace,
        mirror: ImageMirror | None = None,
    ) -> None:
        """Define the role.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster.
            workspace: Where the metrics of model servers are, in the Region of the cluster.
            mirror: Registries of a closed network, which hold copies of chart and images.
        """
        super().__init__(scope, construct_id)
        self.role: iam.Role = define_pod_role(self, cluster, namespace=KEDA_NAMESPACE, service_account=KEDA_ACCOUNT)
        self.metrics: PrometheusWorkspace = _grant_queries(self, self.role, workspace)
        self.release: ChartRelease = keda_chart(mirror=mirror)

    def install(self, software: KubernetesSoftware) -> eks.HelmChart:
        """Install the chart, after its role and the association of the role with its pod.

        Args:
            software: What installs it.
        """
        return software.install(self.release, after=[self])


class ArgoRollouts(ClusterConstruct):
    """What Argo Rollouts needs to judge a new version of a model by metrics of a workspace; and its chart.

    Makes a role that its pods take by EKS Pod Identity: it may query this workspace of Amazon Managed Service for
    Prometheus, and nothing else. The signing proxy of AWS runs in the same pods, which sends their queries. A closed
    network needs the VPC endpoint `aps-workspaces`.

    Source: argoproj/argo-rollouts @ 838d4e7 (v1.9.0), metricproviders/prometheus/prometheus.go; AWS managed policy
    AmazonPrometheusQueryAccess, here for one workspace.

    Example:
        >>> from cdk_gpu_clusters import ArgoRollouts, EksGpuCluster, MetricsWorkspace
        >>> cluster = EksGpuCluster(stack, "Versions", vpc=two_zone_vpc)
        >>> rollouts = ArgoRollouts(stack, "Rollouts", cluster=cluster, workspace=MetricsWorkspace(stack, "OfVersions"))
        >>> rollouts.release.chart
        'argo-rollouts'

    Attributes:
        role: Role of its controller.
        metrics: The workspace, as `Canary` takes it.
        release: Its chart, for who installs it otherwise: a pod that starts before this construct is complete has no
            role.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: IEksGpuCluster,
        workspace: IMetricsWorkspace,
        mirror: ImageMirror | None = None,
    ) -> None:
        """Define the role.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster.
            workspace: Where the metrics of model servers are, in the Region of the cluster.
            mirror: Registries of a closed network, which hold copies of chart and images.
        """
        super().__init__(scope, construct_id)
        self.role: iam.Role = define_pod_role(
            self, cluster, namespace=ROLLOUTS_NAMESPACE, service_account=ROLLOUTS_ACCOUNT
        )
        self.metrics: PrometheusWorkspace = _grant_queries(self, self.role, workspace)
        self.release: ChartRelease = argo_rollouts_chart(
            region=self.metrics.region, domain=self.metrics.domain, mirror=mirror
        )

    def install(self, software: KubernetesSoftware) -> eks.HelmChart:
        """Install the chart, after its role and the association of the role with its pods.

        Args:
            software: What installs it.
        """
        return software.install(self.release, after=[self])


def _grant_queries(scope: Construct, role: iam.Role, workspace: IMetricsWorkspace) -> PrometheusWorkspace:
    """Let a role query a workspace, and nothing else; gives its place."""
    document = iam.PolicyDocument.from_json(
        {"Version": "2012-10-17", "Statement": [allow(workspace.workspace_arn, *QUERY)]}
    )
    iam.ManagedPolicy(scope, "Policy", document=document, roles=[role])
    stack = stack_of(scope)
    return PrometheusWorkspace(
        workspace_id=cdk.Fn.select(1, cdk.Fn.split("/", workspace.workspace_arn)),
        region=region_of(stack),
        domain=stack.url_suffix,
    )
