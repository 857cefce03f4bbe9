"""A cluster of Amazon EKS that is right for GPU nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import errors_at, path_of, report, resolved_or_none
from cdk_gpu_clusters._object_access import grant_objects
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as catalogue_type
from cdk_gpu_clusters.catalogue.kubernetes import DEFAULT_KUBERNETES_VERSION, ami_type
from cdk_gpu_clusters.compute.fleet_network import select_subnets, zones_of
from cdk_gpu_clusters.compute.launch_template import GpuLaunchTemplate
from cdk_gpu_clusters.compute.node_records import own_log_group
from cdk_gpu_clusters.compute.root_volume import RootVolume
from cdk_gpu_clusters.orchestration.eks.add_ons import ClusterAddOns
from cdk_gpu_clusters.orchestration.eks.cluster_base import EksIdentity, IEksGpuCluster
from cdk_gpu_clusters.orchestration.eks.node_role import EksNodeRole
from cdk_gpu_clusters.rules.eks_cluster import (
    AFTER_NODES,
    BEFORE_NODES,
    PACKED_RESOURCES,
    S3_DRIVER,
    SERVICE_IPV4_CIDR,
    SPREAD_RESOURCES,
    SYSTEM_INSTANCE_TYPE,
    SYSTEM_NODE_COUNT,
    ControlPlaneTier,
    EgressMode,
    SupportType,
    check_cluster,
    check_control_plane,
    check_existing_cluster,
)
from cdk_gpu_clusters.rules.interfaces import Orchestrator

if TYPE_CHECKING:
    from aws_cdk import aws_s3 as s3


class EksGpuCluster(IEksGpuCluster):
    """A cluster of Amazon EKS, ready for GPU nodes.

    Makes:

    - the control plane: reached from inside the network, and from named networks if you say so; all five kinds of logs
      in a log group with an end; secrets encrypted with a KMS key that outlives the stack; no one is an administrator
      but those you name, by access entries;
    - the add-ons of EKS: VPC CNI, kube-proxy, Pod Identity agent, CoreDNS, metrics server, node monitoring agent, and
      the drivers of EBS, FSx and S3 volumes, each with a role of its own where it needs one;
    - two small nodes without accelerators, which hold CoreDNS and the drivers' controllers.

    GPU nodes come by `add_gpu_node_group`. There is no Auto Mode, no Fargate and no `aws-auth`. What is not made by
    CloudFormation, device plugins and queues, comes by `KubernetesSoftware`, or by `gpu-clusters manifests`.

    Source: Amazon EKS user guide; aws-cdk-lib 2.275, aws_eks_v2; docs/decisions/0015.

    Example:
        >>> from cdk_gpu_clusters import EksGpuCluster
        >>> cluster = EksGpuCluster(
        ...     stack, "Cluster", vpc=two_zone_vpc,
        ...     admin_principal_arns=["arn:aws:iam::111122223333:role/platform"],
        ... )
        >>> entry = cluster.grant_view("arn:aws:iam::111122223333:role/research", namespaces=["research"])
        >>> cluster.kubernetes_version
        '1.35'

    Attributes:
        cluster: CDK's construct of the control plane.
        cfn_cluster: The CloudFormation resource, as an escape hatch.
        log_group: Logs of the control plane.
        secrets_encryption_key: Key of Kubernetes secrets.
        system_nodes: The nodes without accelerators: node group, role and launch template.
        add_ons: The add-ons by name.
        add_on_roles: Roles of their pods by name, where they have one.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        vpc_subnets: ec2.SubnetSelection | None = None,
        kubernetes_version: str | None = None,
        cluster_name: str | None = None,
        service_ipv4_cidr: str = SERVICE_IPV4_CIDR,
        public_access_cidrs: Sequence[str] = (),
        secrets_encryption_key: kms.IKey | None = None,
        admin_principal_arns: Sequence[str] = (),
        system_instance_type: str = SYSTEM_INSTANCE_TYPE,
        system_node_count: int = SYSTEM_NODE_COUNT,
        add_on_versions: Mapping[str, str] | None = None,
        without_add_ons: Collection[str] = (),
        pack_devices: bool = True,
        control_plane_tier: ControlPlaneTier | None = None,
        control_plane_egress_mode: EgressMode | None = None,
        support_type: SupportType = "EXTENDED",
        deletion_protection: bool = False,
        log_retention: logs.RetentionDays = logs.RetentionDays.THREE_MONTHS,
        log_encryption_key: kms.IKey | None = None,
    ) -> None:
        """Define the cluster.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Network, with DNS names.
            vpc_subnets: Where the control plane has its interfaces and the system nodes are: two zones at least; the
                private subnets if left out. GPU nodes may be elsewhere in the VPC.
            kubernetes_version: Such as `1.35`; the library's default if left out. A later one updates the control plane
                and the system nodes. Set it before you update the library.
            cluster_name: Name; it follows from the construct's path if left out. A change replaces the cluster.
            service_ipv4_cidr: Addresses of Kubernetes services; 172.20.0.0/16 if left out. A change would replace the
                cluster, which its name prevents.
            public_access_cidrs: Networks that reach the API server over the internet; none if left out.
            secrets_encryption_key: Key of Kubernetes secrets; a new one, which outlives the stack, if left out. A
                change would replace the cluster; a key that is deleted ends it.
            admin_principal_arns: Roles and users that administer the cluster; none if left out, not even the
                deploying principal.
            system_instance_type: Type of the system nodes; m7i.large if left out.
            system_node_count: How many there are; two if left out.
            add_on_versions: Versions of add-ons by name; EKS takes the default one of the Kubernetes version when it
                makes the add-on, and does not update it by itself.
            without_add_ons: Add-ons to leave out, such as `aws-mountpoint-s3-csi-driver`.
            pack_devices: Whether the scheduler fills one node after the other (`MostAllocated`), so that entire nodes
                stay free; it spreads pods if False. EKS has no weight for MIG slices, so the CPU and the memory of
                their pods decide.
                Pods without devices are not affected.
            control_plane_tier: Capacity that EKS provisions for the control plane, at a price: `tier-xl` to `tier-8xl`
                for thousands of pods at once; `standard`, which scales by itself, if left out.
            control_plane_egress_mode: How the control plane reaches webhooks and identity providers: by AWS's network
                (`AWS_MANAGED`) if left out. EKS does not change `CUSTOMER_ROUTED` back.
            support_type: What happens when the standard support of the version ends: it stays, and EKS bills extended
                support (`EXTENDED`), or EKS updates the control plane by itself (`STANDARD`).
            deletion_protection: Whether EKS refuses to delete the cluster, also by `cdk destroy`; not if left out.
            log_retention: How long the control plane's logs are kept; three months if left out.
            log_encryption_key: Key of these logs; CloudWatch's own if left out.

        Raises:
            ConfigError: GPU-EKS-020 to -026 and -031, all of them at once.
        """
        super().__init__(scope, construct_id)
        version = kubernetes_version or DEFAULT_KUBERNETES_VERSION
        name = cluster_name or cdk.Names.unique_resource_name(self, max_length=100, separator="-")
        where = select_subnets(vpc, vpc_subnets)
        with errors_at(self):
            system_type = catalogue_type(system_instance_type)
        report(
            self,
            check_control_plane(
                tier=resolved_or_none(control_plane_tier),
                egress_mode=resolved_or_none(control_plane_egress_mode),
                support_type=support_type,
            )
            + check_cluster(
                version=resolved_or_none(version),
                name=resolved_or_none(name),
                subnet_count=None if where.is_pending_lookup else len(where.subnets),
                zones=zones_of(where.subnets),
                service_cidr=resolved_or_none(service_ipv4_cidr),
                vpc_cidr=_block_of(vpc),
                public_cidrs=[cidr for cidr in public_access_cidrs if resolved_or_none(cidr) is not None],
                system_type=system_type,
                system_nodes=system_node_count,
                add_on_versions=add_on_versions or {},
                without_add_ons=without_add_ons,
            ),
        )
        self.secrets_encryption_key: kms.IKey = secrets_encryption_key or self._key()
        self.log_group: logs.LogGroup = _log_group(self, name, log_retention, log_encryption_key)
        self.cluster: eks.Cluster = control_plane(
            self,
            cluster_name=name,
            vpc=vpc,
            subnets=where.subnets,
            kubernetes_version=version,
            service_ipv4_cidr=service_ipv4_cidr,
            public_access_cidrs=public_access_cidrs,
            secrets_encryption_key=self.secrets_encryption_key,
            tier=control_plane_tier,
        )
        resource = self.cluster.node.default_child
        assert isinstance(resource, eks.CfnCluster)  # noqa: S101 - CDK's own promise
        self.cfn_cluster: eks.CfnCluster = resource
        self.cfn_cluster.deletion_protection = deletion_protection
        # Explicit, as EKS's own default bills by itself.
        self.cfn_cluster.upgrade_policy = eks.CfnCluster.UpgradePolicyProperty(support_type=support_type)
        if control_plane_egress_mode is not None:
            self.cfn_cluster.add_property_override(
                "ResourcesVpcConfig.ControlPlaneEgressMode", control_plane_egress_mode
            )
        self.cfn_cluster.kube_scheduler_config = _scoring(
            "MostAllocated" if pack_devices else "LeastAllocated",
            PACKED_RESOURCES if pack_devices else SPREAD_RESOURCES,
        )
        # EKS makes the group by itself where there is none, and keeps its logs for ever.
        self.cfn_cluster.node.add_dependency(self.log_group)
        self.node.default_child = self.cfn_cluster
        self._identity = EksIdentity(
            cluster_name=self.cluster.cluster_name,
            cluster_security_group=self.cluster.cluster_security_group,
            kubernetes_version=version,
            service_ipv4_cidr=service_ipv4_cidr,
            vpc=vpc,
            subnets=where.subnets,
            is_public=bool(public_access_cidrs),
            literal_name=resolved_or_none(name),
        )
        own = ClusterAddOns(self, versions=add_on_versions or {}, left_out=without_add_ons)
        self.node_prerequisites.extend(own.define(BEFORE_NODES))
        self.system_nodes: SystemNodes = system_nodes(
            self, instance_type=system_type, node_count=system_node_count, subnets=where.subnets
        )
        nodes = self.system_nodes.cfn_nodegroup
        self.workload_prerequisites.extend([nodes, *own.define(AFTER_NODES, after=[nodes])])
        self.add_ons: Mapping[str, eks.CfnAddon] = own.resources
        self.add_on_roles: Mapping[str, iam.Role] = own.roles
        for arn in admin_principal_arns:
            self.grant_admin(arn)

    def grant_bucket_volumes(self, bucket: s3.IBucket, *, prefix: str = "", write: bool = False) -> iam.Grant:
        """Let the S3 driver mount a bucket as volumes.

        Whoever may make a volume in the cluster may then read what the driver may.

        Args:
            bucket: The bucket.
            prefix: What the keys begin with, such as `weights/`; every object if left out.
            write: Whether volumes may be written, too.

        Raises:
            ValueError: If the cluster was made without the driver.
        """
        if S3_DRIVER not in self.add_on_roles:
            raise ValueError(f"{path_of(self)}: there is no {S3_DRIVER}, which mounts buckets")
        role = self.add_on_roles[S3_DRIVER]
        return grant_objects(role, bucket, prefix=prefix, write=write)

    def _key(self) -> kms.Key:
        return kms.Key(
            self,
            "Key",
            description=f"Kubernetes secrets of {path_of(self)}",
            enable_key_rotation=True,
            removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )

    @staticmethod
    def from_eks_gpu_cluster_attributes(
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        cluster_name: str,
        cluster_security_group_id: str,
        kubernetes_version: str,
        service_ipv4_cidr: str = SERVICE_IPV4_CIDR,
        public_endpoint: bool = False,
        kubectl_role_arn: str | None = None,
        node_security_group_ids: Sequence[str] = (),
        cni_from_node_role: bool = False,
    ) -> IEksGpuCluster:
        """Import a cluster. Its authentication mode must be API or API_AND_CONFIG_MAP, so that it has access entries.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Its network.
            cluster_name: Its name.
            cluster_security_group_id: `aws eks describe-cluster` has it as `clusterSecurityGroupId`.
            kubernetes_version: Its version, such as `1.35`.
            service_ipv4_cidr: Its service addresses; 172.20.0.0/16 if left out.
            public_endpoint: Whether its API server has a public endpoint.
            kubectl_role_arn: Role of the function of `KubernetesSoftware`, which Lambda may assume, and which may
                administer the cluster, describe it, and run in the VPC; a role is made, with an access entry, if left
                out.
            node_security_group_ids: Groups of its present nodes that new nodes must join, too. terraform-aws-eks (21.x)
                puts nodes into a group of its own, and not into that of the cluster: pods of one would not reach the
                others.
            cni_from_node_role: Whether its VPC CNI takes its permissions from the role of the nodes, as in clusters of
                eksctl without Pod Identity or IRSA for `aws-node`; from a role of its own if left out.

        Raises:
            ConfigError: GPU-EKS-020, -023, -025, all of them at once.
        """
        cluster = IEksGpuCluster(scope, construct_id)
        report(
            cluster,
            check_existing_cluster(
                version=resolved_or_none(kubernetes_version),
                name=resolved_or_none(cluster_name),
                service_cidr=resolved_or_none(service_ipv4_cidr),
            ),
        )
        cluster._identity = EksIdentity(
            cluster_name=cluster_name,
            cluster_security_group=ec2.SecurityGroup.from_security_group_id(
                cluster, "Group", cluster_security_group_id
            ),
            kubernetes_version=kubernetes_version,
            service_ipv4_cidr=service_ipv4_cidr,
            vpc=vpc,
            is_public=public_endpoint,
            kubectl_role_arn=kubectl_role_arn,
            literal_name=resolved_or_none(cluster_name),
            node_security_groups=[
                ec2.SecurityGroup.from_security_group_id(cluster, f"NodeGroup{one}", one)
                for one in node_security_group_ids
            ],
            cni_from_node_role=cni_from_node_role,
        )
        return cluster


def _block_of(vpc: ec2.IVpc) -> str | None:
    try:
        return resolved_or_none(vpc.vpc_cidr_block)
    except RuntimeError:  # CDK's way to say that an imported VPC came without its block
        return None


# The control plane of a cluster: CDK's `aws_eks_v2.Cluster`, closed, logged and encrypted.
#
# Of that construct only the cluster and its role are used: no Auto Mode, no default capacity, none of the add-ons that
# EKS installs by itself and never updates, and no `kubectl` (docs/decisions/0015).

_CLUSTER_POLICY = AcceptedFinding(
    cause="`EksGpuCluster`: role of the control plane",
    reason="AWS keeps what the control plane needs in the managed policy `AmazonEKSClusterPolicy`.",
    aws_solutions=("IAM4",),
)
_CONTROL_PLANE_LOGS = AcceptedFinding(
    cause="`EksGpuCluster` without `log_encryption_key`: log group of the control plane",
    reason="CloudWatch Logs encrypts every log group; a key of your own is a property.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)


def control_plane(
    scope: Construct,
    *,
    cluster_name: str,
    vpc: ec2.IVpc,
    subnets: Sequence[ec2.ISubnet],
    kubernetes_version: str,
    service_ipv4_cidr: str,
    public_access_cidrs: Sequence[str],
    secrets_encryption_key: kms.IKey,
    tier: ControlPlaneTier | None = None,
) -> eks.Cluster:
    """Define a control plane, as `EksGpuCluster` asks for it."""
    # EKS attaches its own group, too, which admits the nodes: this one has nothing to let through.
    group = ec2.SecurityGroup(scope, "ControlPlane", vpc=vpc, description="EKS control plane", allow_all_outbound=False)
    access = eks.EndpointAccess.PRIVATE
    if public_access_cidrs:
        access = eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*public_access_cidrs)
    cluster = eks.Cluster(
        scope,
        "Cluster",
        cluster_name=cluster_name,
        version=eks.KubernetesVersion.of(kubernetes_version),
        vpc=vpc,
        vpc_subnets=[ec2.SubnetSelection(subnets=subnets)],
        security_group=group,
        endpoint_access=access,
        service_ipv4_cidr=service_ipv4_cidr,
        cluster_logging=list(eks.ClusterLoggingTypes),
        secrets_encryption_key=secrets_encryption_key,
        control_plane_scaling_tier=None if tier is None else eks.ControlPlaneScalingTier.of(tier),
        bootstrap_cluster_creator_admin_permissions=False,
        bootstrap_self_managed_addons=False,
        default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
        default_capacity=0,
        output_config_command=False,
    )
    cdk.Annotations.of(cluster).acknowledge_warning(
        "@aws-cdk/aws-eks:clusterMustManuallyTagSubnet",
        "Only a controller of load balancers needs the tag, and can be given its subnets instead",
    )
    _CLUSTER_POLICY.at(cluster.role, "Policy::arn:<AWS::Partition>:iam::aws:policy/AmazonEKSClusterPolicy")
    return cluster


def _scoring(strategy: str, weights: Mapping[str, int]) -> eks.CfnCluster.KubeSchedulerConfigProperty:
    """How the scheduler chooses between nodes with room."""
    properties = eks.CfnCluster
    return properties.KubeSchedulerConfigProperty(
        node_resources_fit=properties.NodeResourcesFitConfigProperty(
            scoring_strategy=properties.ScoringStrategyProperty(
                type=strategy,
                resources=[
                    properties.ResourceWeightProperty(name=one, weight=weight) for one, weight in weights.items()
                ],
            )
        )
    )


def _log_group(
    scope: Construct, cluster_name: str, retention: logs.RetentionDays, encryption_key: kms.IKey | None
) -> logs.LogGroup:
    """The log group that EKS writes to, made before it would make one itself.

    Source: Amazon EKS user guide, "Send control plane logs to CloudWatch Logs": `/aws/eks/<cluster>/cluster`.
    """
    return own_log_group(
        scope,
        "Logs",
        name=f"/aws/eks/{cluster_name}/cluster",
        retention=retention,
        encryption_key=encryption_key,
        without_key=_CONTROL_PLANE_LOGS,
    )


# The small nodes without accelerators that hold a cluster's own pods.

_ROOT_VOLUME_GIB = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemNodes:
    """The system nodes of a cluster.

    Attributes:
        cfn_nodegroup: The CloudFormation resource.
        role: Role of the nodes.
        launch_template: Their launch template.
    """

    cfn_nodegroup: eks.CfnNodegroup
    role: EksNodeRole
    launch_template: GpuLaunchTemplate


def system_nodes(
    cluster: IEksGpuCluster,
    *,
    instance_type: InstanceType,
    node_count: int,
    subnets: Sequence[ec2.ISubnet],
) -> SystemNodes:
    """Define the system nodes: a managed node group over the zones of the control plane.

    Args:
        cluster: The cluster.
        instance_type: Type of the nodes.
        node_count: How many.
        subnets: Where they are.
    """
    scope = Construct(cluster, "SystemNodes")
    image = ami_type(accelerator=None, architecture=instance_type.architecture)
    assert image is not None  # noqa: S101 - the catalogue has one for each architecture
    role = EksNodeRole(scope, "Role")
    # The type stands in the template: another one then replaces the nodes one by one, not the group.
    template = GpuLaunchTemplate(
        scope,
        "LaunchTemplate",
        instance_type=instance_type.name,
        orchestrator=Orchestrator.EKS_MANAGED,
        security_groups=[cluster.cluster_security_group],
        name_tag=path_of(cluster) + "/SystemNodes",
        root_volume=RootVolume(size_gib=_ROOT_VOLUME_GIB, throughput_mib_per_s=125),
    )
    group = eks.CfnNodegroup(
        scope,
        "Resource",
        cluster_name=cluster.cluster_name,
        node_role=role.role_arn,
        subnets=[subnet.subnet_id for subnet in subnets],
        ami_type=image.ami_type,
        version=cluster.kubernetes_version,
        launch_template=eks.CfnNodegroup.LaunchTemplateSpecificationProperty(
            id=template.launch_template_id, version=template.latest_version_number
        ),
        scaling_config=eks.CfnNodegroup.ScalingConfigProperty(
            min_size=node_count, desired_size=node_count, max_size=node_count
        ),
        update_config=eks.CfnNodegroup.UpdateConfigProperty(max_unavailable=1),
        node_repair_config=eks.CfnNodegroup.NodeRepairConfigProperty(enabled=True),
    )
    if cluster.node_prerequisites:
        group.node.add_dependency(*cluster.node_prerequisites)
    for subnet in subnets:  # a node's first boot needs the way out
        group.node.add_dependency(subnet.internet_connectivity_established)
    return SystemNodes(cfn_nodegroup=group, role=role, launch_template=template)
