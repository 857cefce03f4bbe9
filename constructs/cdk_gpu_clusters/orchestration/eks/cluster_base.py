"""What every cluster of Amazon EKS offers, defined here or imported: identity, access and add-ons."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from cdk_gpu_clusters._accepted import named_resource
from cdk_gpu_clusters._cdk import (
    ClusterConstruct,
    arn_of,
    partition_of,
    region_of,
    stack_of,
)
from cdk_gpu_clusters.compute.fleet_network import select_subnets
from cdk_gpu_clusters.orchestration.eks.node_group import EksGpuNodeGroup
from cdk_gpu_clusters.orchestration.eks.nodes import EksGpuNodeGroupProps

#: Who gets access: a role, a user, or the ARN of one.
Principal = iam.IRole | iam.IUser | str


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
    node_security_groups: Sequence[ec2.ISecurityGroup] = ()
    cni_from_node_role: bool = False
    literal_name: str | None = None


@jsii.implements(ec2.IConnectable)
class IEksGpuCluster(ClusterConstruct):
    """A cluster of Amazon EKS for GPU nodes: an `EksGpuCluster`, or one that is defined elsewhere.

    Access is granted by access entries, never by a ConfigMap: one entry an identity, to which each further grant adds a
    policy. The roles of managed node groups need no grant, because EKS makes their entries.

    Source: Amazon EKS user guide, "Create access entries" (awsdocs/amazon-eks-user-guide @ 1b1d3df, read 2026-11-22).

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
        """Define the construct; whoever makes it sets its identity."""
        super().__init__(scope, construct_id)
        self.node_prerequisites: list[IDependable] = []
        self.workload_prerequisites: list[IDependable] = []

    @property
    def cluster_name(self) -> str:
        """Name."""
        return self._identity.cluster_name

    @property
    def literal_name(self) -> str | None:
        """Name as synthesis knows it, for keys of conditions, which take no token; None for a token."""
        return self._identity.literal_name

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

    @property
    def node_security_groups(self) -> Sequence[ec2.ISecurityGroup]:
        """Further groups of every node, besides that of the cluster."""
        return self._identity.node_security_groups

    @property
    def cni_from_node_role(self) -> bool:
        """Whether the VPC CNI takes its permissions from the role of the nodes."""
        return self._identity.cni_from_node_role

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

    def add_gpu_node_group(
        self,
        construct_id: str,
        *,
        instance_type: str | ec2.InstanceType,
        **options: Unpack[EksGpuNodeGroupProps],
    ) -> EksGpuNodeGroup:
        """Define a managed group of GPU nodes in this cluster.

        Args:
            construct_id: Id below the cluster.
            instance_type: Type of every node, such as `p5.48xlarge`.
            options: Those of `EksGpuNodeGroupProps`; all but the size may be left out.

        Raises:
            ConfigError: As `EksGpuNodeGroup`.
        """
        return EksGpuNodeGroup(self, construct_id, cluster=self, instance_type=instance_type, **options)

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

    def grant_admin(self, principal: Principal) -> eks.CfnAccessEntry:
        """Grant permission for everything in the cluster.

        Args:
            principal: A role or a user, or the ARN of one.

        Returns:
            The identity's access entry.
        """
        return self._grant(principal, "AmazonEKSClusterAdminPolicy", ())

    def grant_edit(self, principal: Principal, *, namespaces: Sequence[str] = ()) -> eks.CfnAccessEntry:
        """Grant permission to run and change workloads, to enter their containers, and to read their secrets.

        Who makes pods chooses their image, their service account and their host access: in a namespace without Pod
        Security admission, this is root on the nodes, and so the role of the nodes and what other pods there have.
        `kubernetes.namespaces.job_namespace` makes namespaces in which it is not. In `default`, `kube-system` and the
        namespaces of charts nothing refuses such pods: name `namespaces`.

        Source: Amazon EKS user guide, "Review access policy permissions": AmazonEKSEditPolicy.

        Args:
            principal: A role or a user, or the ARN of one.
            namespaces: Where; everywhere if left out.

        Returns:
            The identity's access entry.
        """
        return self._grant(principal, "AmazonEKSEditPolicy", namespaces)

    def grant_view(self, principal: Principal, *, namespaces: Sequence[str] = ()) -> eks.CfnAccessEntry:
        """Grant permission to view workloads, without secrets.

        Args:
            principal: A role or a user, or the ARN of one.
            namespaces: Where; everywhere if left out.

        Returns:
            The identity's access entry.
        """
        return self._grant(principal, "AmazonEKSViewPolicy", namespaces)

    def grant_group(self, principal: Principal, group: str) -> eks.CfnAccessEntry:
        """Make someone a member of a group of Kubernetes, whose rights are what RBAC binds to it.

        An identity has one access entry: its groups and policies are in it together.

        Source: Amazon EKS user guide, "Create access entries".

        Args:
            principal: A role or a user, or the ARN of one.
            group: Name of the group, such as `kubernetes.team_quotas.Team.group`.

        Returns:
            The identity's access entry.
        """
        entry = self._entry(_arn_of(principal))
        entry.kubernetes_groups = list(dict.fromkeys([*(entry.kubernetes_groups or []), group]))
        return entry

    def _grant(self, principal: Principal, policy: str, namespaces: Sequence[str]) -> eks.CfnAccessEntry:
        arn = _arn_of(principal)
        scopes = self._policies.setdefault(arn, {})
        # An entry has each policy once: everywhere, or in some namespaces.
        everywhere = not namespaces or scopes.get(policy) == ()
        scopes[policy] = () if everywhere else tuple(dict.fromkeys([*scopes.get(policy, ()), *namespaces]))
        policies: list[cdk.IResolvable | eks.CfnAccessEntry.AccessPolicyProperty] = [
            _access_policy(self, name, names) for name, names in scopes.items()
        ]
        entry = self._entry(arn)
        entry.access_policies = policies
        return entry

    def _entry(self, arn: str) -> eks.CfnAccessEntry:
        if arn not in self._entries:
            self._entries[arn] = eks.CfnAccessEntry(
                self._entry_scope,
                _entry_id(self, arn),
                cluster_name=self.cluster_name,
                principal_arn=arn,
                type="STANDARD",
            )
        return self._entries[arn]

    def _define_add_on(
        self,
        name: str,
        *,
        scope: Construct | None = None,
        version: str | None,
        configuration: Mapping[str, Any] | None,
        service_account_roles: Mapping[str, str] | None,
    ) -> eks.CfnAddon:
        """Define an add-on that waits for nothing but the cluster; otherwise as `add_add_on`.

        Args:
            scope: Construct that it belongs to; the cluster if left out.
        """
        return eks.CfnAddon(
            scope or self._add_on_scope,
            name,
            cluster_name=self.cluster_name,
            addon_name=name,
            addon_version=version,
            configuration_values=json.dumps(configuration, sort_keys=True) if configuration else None,
            pod_identity_associations=[
                eks.CfnAddon.PodIdentityAssociationProperty(service_account=account, role_arn=role)
                for account, role in (service_account_roles or {}).items()
            ]
            or None,
            # What the template has wins over what was changed by kubectl.
            resolve_conflicts="OVERWRITE",
        )

    @cached_property
    def _add_on_scope(self) -> Construct:
        """Namespace of the add-ons."""
        return Construct(self, "AddOns")

    @cached_property
    def _entry_scope(self) -> Construct:
        return Construct(self, "Access")

    @cached_property
    def _entries(self) -> dict[str, eks.CfnAccessEntry]:
        return {}

    @cached_property
    def _policies(self) -> dict[str, dict[str, tuple[str, ...]]]:
        return {}


def _arn_of(principal: Principal) -> str:
    if isinstance(principal, str):
        return principal
    return principal.user_arn if hasattr(principal, "user_arn") else principal.role_arn


def _access_policy(scope: Construct, name: str, namespaces: Sequence[str]) -> eks.CfnAccessEntry.AccessPolicyProperty:
    partition = partition_of(stack_of(scope))
    return eks.CfnAccessEntry.AccessPolicyProperty(
        policy_arn=f"arn:{partition}:eks::aws:cluster-access-policy/{name}",
        access_scope=eks.CfnAccessEntry.AccessScopeProperty(
            type="namespace" if namespaces else "cluster",
            namespaces=list(namespaces) or None,
        ),
    )


def _entry_id(scope: Construct, arn: str) -> str:
    """An id that follows from the identity, even if its ARN is a token."""
    return named_resource(scope, arn).removeprefix("Resource::").replace("/", ".")
