"""What clusters of EKS made here and existing ones have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from cdk_gpu_clusters._cdk import ClusterConstruct, arn_of, region_of
from cdk_gpu_clusters.compute.fleet_subnets import select_subnets
from cdk_gpu_clusters.orchestration.eks.access import ClusterAccess
from cdk_gpu_clusters.orchestration.eks.add_on import eks_add_on

if TYPE_CHECKING:
    from cdk_gpu_clusters.orchestration.eks.node_group import EksGpuNodeGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class EksIdentity:
    """How a cluster is known to its nodes and its users."""

    cluster_name: str
    cluster_security_group: ec2.ISecurityGroup
    kubernetes_version: str
    service_ipv4_cidr: str
    vpc: ec2.IVpc
    subnets: Sequence[ec2.ISubnet] | None = None
    is_public: bool = False
    kubectl_role_arn: str | None = None


class EksGpuClusterBase(ClusterConstruct, ClusterAccess):
    """A cluster of EKS for GPU nodes, made here (`EksGpuCluster`) or existing (`EksGpuCluster.from_attributes`).

    Example:
        >>> from cdk_gpu_clusters import EksGpuCluster
        >>> existing = EksGpuCluster.from_attributes(
        ...     stack,
        ...     "Existing",
        ...     vpc=vpc,
        ...     cluster_name="research",
        ...     cluster_security_group_id="sg-0123456789abcdef0",
        ...     kubernetes_version="1.35",
        ... )
        >>> existing.service_ipv4_cidr
        '172.20.0.0/16'

    Attributes:
        cluster_name: Its name.
        cluster_arn: Its ARN.
        cluster_security_group: The group that EKS itself made for the control plane and managed nodes; it admits all
            traffic among its members.
        kubernetes_version: Such as `1.35`.
        service_ipv4_cidr: Addresses of Kubernetes services.
        vpc: Network.
        connections: Its security group, for CDK's `allow_...` methods; the API server listens on port 443.
        is_public: Whether the API server has a public endpoint besides the private one.
        kubectl_role_arn: Role of what applies manifests; None where one is made.
        node_prerequisites: What has to be there before the first node: what a node group depends on.
        workload_prerequisites: What has to be there before the first pod that is no part of every node: what a chart
            or manifest depends on.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        """Make an empty cluster; its subclass tells it who it is."""
        super().__init__(scope, construct_id)
        self.node_prerequisites: list[IDependable] = []
        self.workload_prerequisites: list[IDependable] = []

    def _become(self, identity: EksIdentity) -> None:
        self.cluster_name: str = identity.cluster_name
        self.cluster_arn: str = arn_of(self, "eks", f"cluster/{identity.cluster_name}")
        self.cluster_security_group: ec2.ISecurityGroup = identity.cluster_security_group
        self.kubernetes_version: str = identity.kubernetes_version
        self.service_ipv4_cidr: str = identity.service_ipv4_cidr
        self.vpc: ec2.IVpc = identity.vpc
        self._subnets = identity.subnets
        self.is_public: bool = identity.is_public
        self.kubectl_role_arn: str | None = identity.kubectl_role_arn
        self.connections: ec2.Connections = ec2.Connections(
            security_groups=[identity.cluster_security_group], default_port=ec2.Port.tcp(443)
        )

    @cached_property
    def subnets(self) -> Sequence[ec2.ISubnet]:
        """Where the control plane has its interfaces; the private subnets of an existing cluster's network."""
        return select_subnets(self.vpc, None).subnets if self._subnets is None else self._subnets

    @property
    def kubeconfig_command(self) -> str:
        """A shell line that lets kubectl find the cluster."""
        region = region_of(self._stack)
        return f"aws eks update-kubeconfig --region {region} --name {self.cluster_name}"

    def add_gpu_node_group(self, construct_id: str, **options: Any) -> EksGpuNodeGroup:
        """Define a managed group of GPU nodes in this cluster.

        Args:
            construct_id: Id below the cluster.
            options: Those of `EksGpuNodeGroup`.

        Raises:
            ConfigError: As `EksGpuNodeGroup`.
        """
        from cdk_gpu_clusters.orchestration.eks.node_group import EksGpuNodeGroup

        return EksGpuNodeGroup(self, construct_id, cluster=self, **options)

    def add_add_on(
        self,
        name: str,
        *,
        version: str | None = None,
        configuration: Mapping[str, Any] | None = None,
        service_account_roles: Mapping[str, str] | None = None,
    ) -> eks.CfnAddon:
        """Define a further add-on of EKS.

        Args:
            name: Such as `snapshot-controller`.
            version: Its version; EKS takes the default one of the Kubernetes version if left out.
            configuration: Its settings, as `aws eks describe-addon-configuration` has them.
            service_account_roles: ARN of the role that the pods of a service account get from EKS Pod Identity.
        """
        made = self._define_add_on(
            name,
            version=version,
            configuration=configuration,
            service_account_roles=service_account_roles,
        )
        if self.workload_prerequisites:
            made.node.add_dependency(*self.workload_prerequisites)
        return made

    def _define_add_on(
        self,
        name: str,
        *,
        version: str | None,
        configuration: Mapping[str, Any] | None,
        service_account_roles: Mapping[str, str] | None,
    ) -> eks.CfnAddon:
        """Define an add-on that waits for nothing but the cluster; otherwise as `add_add_on`."""
        return eks_add_on(
            self._add_on_scope,
            name,
            cluster_name=self.cluster_name,
            name=name,
            version=version,
            configuration=configuration,
            service_account_roles=service_account_roles,
        )

    @cached_property
    def _add_on_scope(self) -> Construct:
        """Namespace of the add-ons."""
        return Construct(self, "AddOns")
