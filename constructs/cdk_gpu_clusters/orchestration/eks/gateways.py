"""What gateways of a cluster need of an account: load balancers and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import ClusterConstruct, partition_of, region_of, stack_of
from cdk_gpu_clusters._template import allow
from cdk_gpu_clusters.kubernetes.software import ChartRelease, ImageMirror
from cdk_gpu_clusters.kubernetes.software.serving import (
    EXTERNAL_DNS_ACCOUNT,
    EXTERNAL_DNS_NAMESPACE,
    LOAD_BALANCER_ACCOUNT,
    LOAD_BALANCER_NAMESPACE,
    external_dns_chart,
    gateway_api_chart,
    load_balancer_controller_chart,
)
from cdk_gpu_clusters.orchestration.eks.add_ons import define_pod_role
from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
from cdk_gpu_clusters.orchestration.eks.software import KubernetesSoftware
from cdk_gpu_clusters.rules.load_balancer_rights import load_balancer_statements

if TYPE_CHECKING:
    from aws_cdk import aws_route53 as route53

_RIGHTS = AcceptedFinding(
    cause="`LoadBalancerController`: policy of its pods",
    reason="It makes load balancers, target groups and security groups, whose names are unknown before; conditions "
    "limit most changes to those with the tag of the controller. Descriptions have no resource level.",
    aws_solutions=("IAM5",),
)
_ZONES = AcceptedFinding(
    cause="`ExternalDns`: policy of its pod",
    reason="The list of hosted zones has no resource level.",
    aws_solutions=("IAM5",),
)


class LoadBalancerController(ClusterConstruct):
    """What the AWS Load Balancer Controller needs, to make an Application Load Balancer of each gateway; its charts.

    Makes a role that its pods take by EKS Pod Identity. It is allowed what the project's own policy allows, but for AWS
    WAF, AWS Shield and Amazon Cognito, and for the account and the Region of the cluster only. `install` installs the
    CRDs of the Gateway API and the controller, in this order: it looks for them as it starts.

    The load balancers belong to the objects in the cluster, not to the stack: delete gateways before the controller
    goes, or their load balancers stay.

    Source: kubernetes-sigs/aws-load-balancer-controller @ 11eb202 (v3.5.0), docs/install/iam_policy.json,
    docs/guide/gateway/gateway.md (read 2026-11-27).

    Example:
        >>> from cdk_gpu_clusters import EksGpuCluster, KubernetesSoftware, LoadBalancerController
        >>> from cdk_gpu_clusters.kubernetes.gateway import ModelGateway, gateway_objects
        >>> cluster = EksGpuCluster(stack, "Serving", vpc=two_zone_vpc)
        >>> controller = LoadBalancerController(stack, "LoadBalancers", cluster=cluster)
        >>> software = KubernetesSoftware(stack, "ServingSoftware", cluster=cluster)
        >>> chart = controller.install(software)
        >>> gateway = software.apply("Gateway", gateway_objects(ModelGateway(plain_http=True, clients=["10.0.0.0/16"])))

    Attributes:
        role: Role of its pods.
        releases: Its charts, for who installs them otherwise: the CRDs of the Gateway API, and the controller, whose
            pods have no role if they start before this construct is complete.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: IEksGpuCluster,
        gateway_api: bool = True,
        mirror: ImageMirror | None = None,
    ) -> None:
        """Define the role.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster.
            gateway_api: Whether its charts have the CRDs of the Gateway API. False for a cluster that has them
                already, v1.6.0 or later: Helm takes over no objects of others.
            mirror: Registries of a closed network, which hold copies of charts and images.
        """
        super().__init__(scope, construct_id)
        self.role: iam.Role = define_pod_role(
            self, cluster, namespace=LOAD_BALANCER_NAMESPACE, service_account=LOAD_BALANCER_ACCOUNT
        )
        stack = stack_of(self)
        self._allow(
            load_balancer_statements(partition=partition_of(stack), region=region_of(stack), account=stack.account)
        )
        controller = load_balancer_controller_chart(
            cluster_name=cluster.cluster_name,
            vpc_id=cluster.vpc.vpc_id,
            region=region_of(stack),
            mirror=mirror,
        )
        self.releases: tuple[ChartRelease, ...] = (
            *([gateway_api_chart(mirror=mirror)] if gateway_api else []),
            controller,
        )

    def install(self, software: KubernetesSoftware) -> eks.HelmChart:
        """Install its charts, after its role and the association of the role with its pods.

        Args:
            software: What installs them.

        Returns:
            The chart of the controller.
        """
        *crds, controller = self.releases
        for release in crds:
            software.install(release)
        return software.install(controller, after=[self])

    def _allow(self, statements: Sequence[dict[str, Any]]) -> None:
        # A managed policy has at most 6,144 characters (IAM user guide, "IAM and AWS STS quotas").
        changes = [one for one in statements if one["Action"][-1].startswith("elasticloadbalancing:")]
        parts = {"Balancers": changes, "Others": [one for one in statements if one not in changes]}
        for name, part in parts.items():
            document = iam.PolicyDocument.from_json({"Version": "2012-10-17", "Statement": part})
            policy = iam.ManagedPolicy(self, name, document=document, roles=[self.role])
            named = [one["Resource"] for one in part]
            wide = {one for some in named for one in ([some] if isinstance(some, str) else some)}
            _RIGHTS.at(policy, *(named_resource(policy, one) for one in sorted(wide)))


class ExternalDns(ClusterConstruct):
    """What ExternalDNS needs, to keep the names of HTTPRoutes in a hosted zone of Amazon Route 53; and its chart.

    Makes a role that its pod takes by EKS Pod Identity: it may change the records of this zone alone. Route 53 is
    reached by the internet; a closed network has to keep the names otherwise.

    Source: kubernetes-sigs/external-dns @ 9f26451, docs/tutorials/aws.md: permissions (read 2026-11-27).

    Example:
        >>> from aws_cdk import aws_route53 as route53
        >>> from cdk_gpu_clusters import EksGpuCluster, ExternalDns
        >>> cluster = EksGpuCluster(stack, "Named", vpc=two_zone_vpc)
        >>> zone = route53.PrivateHostedZone(stack, "Zone", vpc=two_zone_vpc, zone_name="models.internal")
        >>> names = ExternalDns(stack, "Names", cluster=cluster, zone=zone)
        >>> names.release.values["domainFilters"]
        ['models.internal']

    Attributes:
        role: Role of its pod.
        release: Its chart, for who installs it otherwise: a pod that starts before this construct is complete has no
            role.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: IEksGpuCluster,
        zone: route53.IHostedZone,
        mirror: ImageMirror | None = None,
    ) -> None:
        """Define the role.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster.
            zone: Hosted zone of the names: a private one of the network of the clients, or a public one.
            mirror: Registries of a closed network, which hold copies of chart and image.
        """
        super().__init__(scope, construct_id)
        self.role: iam.Role = define_pod_role(
            self, cluster, namespace=EXTERNAL_DNS_NAMESPACE, service_account=EXTERNAL_DNS_ACCOUNT
        )
        statements = [
            allow(
                zone.hosted_zone_arn,
                "route53:ChangeResourceRecordSets",
                "route53:ListResourceRecordSets",
                "route53:ListTagsForResources",
            ),
            allow("*", "route53:ListHostedZones"),
        ]
        document = iam.PolicyDocument.from_json({"Version": "2012-10-17", "Statement": statements})
        policy = iam.ManagedPolicy(self, "Policy", document=document, roles=[self.role])
        _ZONES.at(policy, "Resource::*")
        self.release: ChartRelease = external_dns_chart(
            cluster_name=cluster.cluster_name,
            zone_id=zone.hosted_zone_id,
            zone_name=zone.zone_name,
            region=region_of(stack_of(self)),
            mirror=mirror,
        )

    def install(self, software: KubernetesSoftware) -> eks.HelmChart:
        """Install the chart, after its role and the association of the role with its pod.

        It reads HTTPRoutes: install `LoadBalancerController` before, which brings their CRD.

        Args:
            software: What installs it.
        """
        return software.install(self.release, after=[self])
