"""What every cluster of Amazon EKS offers, defined here or imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from cdk_gpu_clusters._cdk import ClusterConstruct, arn_of, known, region_of, report
from cdk_gpu_clusters.compute.fleet_subnets import select_subnets
from cdk_gpu_clusters.orchestration.eks.access import ClusterAccess
from cdk_gpu_clusters.orchestration.eks.add_on import eks_add_on
from cdk_gpu_clusters.rules.eks_cluster import check_existing_cluster

if TYPE_CHECKING:
    from cdk_gpu_clusters.orchestration.eks.node_group import EksGpuNodeGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class EksIdentity:
    """What nodes and users need to know about a cluster."""

    cluster_name: str
    cluster_security_group: ec2.ISecurityGroup
    kubernetes_version: str
    service_ipv4_cidr: str
    vpc: ec2.IVpc
    subnets: Sequence[ec2.ISubnet] | None = None
    is_public: bool = False
    kubectl_role_arn: str | None = None


@jsii.implements(ec2.IConnectable)
class IEksGpuCluster(ClusterConstruct, ClusterAccess):
    """A cluster of Amazon EKS for GPU nodes: an `EksGpuCluster`, or an imported one.

    Example:
        >>> from cdk_gpu_clusters import EksGpuCluster
        >>> existing = EksGpuCluster.from_eks_gpu_cluster_attributes(
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
        node_prerequisites: What must exist before the first node: the dependencies of a node group.
        workload_prerequisites: What must exist before the first pod that does not run on every node: the dependencies
            of a chart or manifest.
    """

    _identity: EksIdentity

    def __init__(self, scope: Construct, construct_id: str) -> None:
        """Define the construct; subclasses set its identity."""
        super().__init__(scope, construct_id)
        self.node_prerequisites: list[IDependable] = []
        self.workload_prerequisites: list[IDependable] = []

    @property
    def cluster_name(self) -> str:
        """Name."""
        return self._identity.cluster_name

    @cached_property
    def cluster_arn(self) -> str:
        """ARN."""
        return arn_of(self, "eks", f"cluster/{self.cluster_name}")

    @property
    def cluster_security_group(self) -> ec2.ISecurityGroup:
        """Group that EKS makes for the control plane and managed nodes; it admits all traffic among its members."""
        return self._identity.cluster_security_group

    @property
    @jsii.member(jsii_name="connections")
    def connections(self) -> ec2.Connections:
        """The cluster's security group, for CDK's `allow_...` methods; the API server listens on port 443."""
        return self._connections

    @cached_property
    def _connections(self) -> ec2.Connections:
        return ec2.Connections(security_groups=[self.cluster_security_group], default_port=ec2.Port.tcp(443))

    @property
    def kubernetes_version(self) -> str:
        """Version, such as `1.35`."""
        return self._identity.kubernetes_version

    @property
    def service_ipv4_cidr(self) -> str:
        """Addresses of Kubernetes services."""
        return self._identity.service_ipv4_cidr

    @property
    def vpc(self) -> ec2.IVpc:
        """Network."""
        return self._identity.vpc

    @property
    def is_public(self) -> bool:
        """Whether the API server has a public endpoint besides the private one."""
        return self._identity.is_public

    @property
    def kubectl_role_arn(self) -> str | None:
        """Role that applies manifests; None if `KubernetesSoftware` defines one."""
        return self._identity.kubectl_role_arn

    @cached_property
    def subnets(self) -> Sequence[ec2.ISubnet]:
        """Subnets of the control plane's interfaces; the private subnets of the VPC for an imported cluster."""
        chosen = self._identity.subnets
        return select_subnets(self.vpc, None).subnets if chosen is None else chosen

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


class ImportedEksGpuCluster(IEksGpuCluster):
    """A cluster that is defined elsewhere."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        cluster_name: str,
        cluster_security_group_id: str,
        kubernetes_version: str,
        service_ipv4_cidr: str,
        is_public: bool,
        kubectl_role_arn: str | None,
    ) -> None:
        """Refer to the cluster; `EksGpuCluster.from_eks_gpu_cluster_attributes` documents the arguments."""
        super().__init__(scope, construct_id)
        report(
            self,
            check_existing_cluster(
                version=known(kubernetes_version),
                name=known(cluster_name),
                service_cidr=known(service_ipv4_cidr),
            ),
        )
        self._identity = EksIdentity(
            cluster_name=cluster_name,
            cluster_security_group=ec2.SecurityGroup.from_security_group_id(
                self, "Group", cluster_security_group_id
            ),
            kubernetes_version=kubernetes_version,
            service_ipv4_cidr=service_ipv4_cidr,
            vpc=vpc,
            is_public=is_public,
            kubectl_role_arn=kubectl_role_arn,
        )
