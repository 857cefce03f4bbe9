"""The cluster of Amazon EKS that the fleets join, created or existing, and the software inside it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_route53 as route53
from constructs import Construct

from cdk_gpu_clusters._object_access import grant_objects
from cdk_gpu_clusters.kubernetes.gateway import READINESS_LABEL
from cdk_gpu_clusters.kubernetes.node_pool import LustreVolume, NfsVolume, SharedVolume
from cdk_gpu_clusters.kubernetes.objects import DEFAULT_NAMESPACE
from cdk_gpu_clusters.observability.model_controllers import ArgoRollouts, Keda
from cdk_gpu_clusters.observability.workspace import MetricsWorkspace
from cdk_gpu_clusters.orchestration.eks.cluster import EksGpuCluster
from cdk_gpu_clusters.orchestration.eks.cluster_autoscaler import ClusterAutoscaler
from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
from cdk_gpu_clusters.orchestration.eks.gateways import ExternalDns, LoadBalancerController
from cdk_gpu_clusters.orchestration.eks.karpenter import IKarpenter, Karpenter
from cdk_gpu_clusters.orchestration.eks.node_group import EksGpuNodeGroup
from cdk_gpu_clusters.orchestration.eks.software import KubernetesSoftware
from cdk_gpu_clusters.rules.eks_cluster import S3_DRIVER
from cdk_gpu_clusters_stacks.data import ExistingHomes, ExistingLustre, HomeStack, LustreStack, Store, weights_bucket
from cdk_gpu_clusters_stacks.fleets import Site
from cdk_gpu_clusters_stacks.manifests.cluster import (
    ServingNames,
    definitions,
    mirror_of,
    node_pools,
    releases,
    serving_names,
)
from cdk_gpu_clusters_stacks.manifests.files import applied
from cdk_gpu_clusters_stacks.network import ClusterNetworkRef
from cdk_gpu_clusters_stacks.references import publish, read
from cdk_gpu_clusters_stacks.spec.data import LustreSpec, OpenZfsSpec
from cdk_gpu_clusters_stacks.spec.eks import EksSpec, ExistingEksSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import NewNetwork
from cdk_gpu_clusters_stacks.stack_names import eks_stack, karpenter_stack, serving_stack, software_stack


class EksStack(cdk.Stack):
    """An `EksGpuCluster`, in a stack of its own so that fleets come and go beside it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: EksSpec,
        place: ClusterNetworkRef,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, description="Kubernetes of a GPU cluster")
        self._place = place
        self.cluster = EksGpuCluster(
            self,
            "Cluster",
            vpc=place.import_into(self).vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=place.service_subnets(self)),
            kubernetes_version=spec.kubernetes_version,
            public_access_cidrs=spec.public_access_cidrs,
            admin_principal_arns=spec.admin_principal_arns,
            control_plane_tier=spec.control_plane.tier,
            control_plane_egress_mode=spec.control_plane.egress_mode,
            support_type=spec.control_plane.support_type,
            pack_devices=spec.control_plane.pack_devices,
            system_instance_type=spec.system_nodes.instance_type,
            system_node_count=spec.system_nodes.nodes,
        )
        for name, team in spec.teams.items():
            for arn in team.principal_arns:
                self.cluster.grant_group(arn, team.of(name).group)
        group, driver = self.cluster.cluster_security_group, self.cluster.add_on_roles[S3_DRIVER]
        for name, value, description in (
            ("ClusterName", self.cluster.cluster_name, "Cluster of Amazon EKS"),
            ("ClusterSecurityGroupId", group.security_group_id, "Security group that EKS made for the cluster"),
            (
                "KubeconfigCommand",
                self.cluster.kubeconfig_command,
                "Lets kubectl reach the cluster, for principals with an access entry",
            ),
            ("BucketDriverRoleName", driver.role_name, "Role with which pods read buckets as volumes"),
        ):
            publish(self, name, value, description=description)

    def let_read_weights(self, reader: cdk.Stack, s3_uri: str, key_arn: str | None) -> None:
        """Let volumes of S3 read a model's weights; the permission belongs to the fleet that serves them.

        Args:
            reader: Stack of the fleet.
            s3_uri: `s3://bucket/prefix`.
            key_arn: Customer managed key of the bucket; None if it has none.
        """
        name, _, prefix = s3_uri.removeprefix("s3://").partition("/")
        role = iam.Role.from_role_name(reader, "BucketDriver", read(reader, self, "BucketDriverRoleName"))
        bucket = weights_bucket(reader, name, key_arn)
        folder = prefix.strip("/")
        grant_objects(role, bucket, prefix=f"{folder}/" if folder else "")

    def import_into(self, reader: cdk.Stack, vpc: ec2.IVpc, *, by_name: bool = False) -> IEksGpuCluster:
        """The cluster, imported into a stack of node groups.

        Args:
            by_name: Whether the stack has the name of the cluster as text.
        """
        name = self.cluster.literal_name if by_name else None
        return EksGpuCluster.from_eks_gpu_cluster_attributes(
            reader,
            "Cluster",
            vpc=vpc,
            cluster_name=name or read(reader, self, "ClusterName"),
            cluster_security_group_id=read(reader, self, "ClusterSecurityGroupId"),
            kubernetes_version=self.cluster.kubernetes_version,
            service_ipv4_cidr=self.cluster.service_ipv4_cidr,
        )


class ExistingEks:
    """A cluster that exists already."""

    def __init__(self, spec: ExistingEksSpec) -> None:
        """Know it by its attributes."""
        self._spec = spec

    def let_read_weights(self, _reader: cdk.Stack, _s3_uri: str, _key_arn: str | None) -> None:
        """Nothing: which role its driver of S3 volumes has is its owner's affair."""

    def import_into(self, reader: cdk.Stack, vpc: ec2.IVpc, *, by_name: bool = True) -> IEksGpuCluster:  # noqa: ARG002
        """The cluster, imported into a stack of node groups; its name is text."""
        return EksGpuCluster.from_eks_gpu_cluster_attributes(
            reader,
            "Cluster",
            vpc=vpc,
            cluster_name=self._spec.cluster_name,
            cluster_security_group_id=self._spec.cluster_security_group_id,
            kubernetes_version=self._spec.kubernetes_version,
            service_ipv4_cidr=self._spec.service_cidr,
            kubectl_role_arn=self._spec.kubectl_role_arn,
            node_security_group_ids=self._spec.node_security_group_ids,
            cni_from_node_role=self._spec.cni_from_node_role,
        )


def eks_cluster(
    app: cdk.App, spec: ClusterSpec, place: ClusterNetworkRef, env: cdk.Environment
) -> EksStack | ExistingEks:
    """The cluster of Amazon EKS: made in a stack of its own, or existing."""
    if spec.eks.existing is not None:
        return ExistingEks(spec.eks.existing)
    return EksStack(app, eks_stack(spec.name), spec=spec.eks, place=place, env=env)


# What a deployment installs inside Kubernetes, where the cluster file asks for it.


class KarpenterStack(cdk.Stack):
    """Karpenter with its chart, in a stack of its own so that node pools come and go beside it."""

    def __init__(self, site: Site, cluster: EksStack | ExistingEks) -> None:
        spec, place = site.spec, site.place
        name = karpenter_stack(spec.name)
        super().__init__(site.app, name, env=site.env, description="Karpenter of a GPU cluster on Kubernetes")
        here, self._cluster = place.import_into(self), cluster
        joined = cluster.import_into(self, here.vpc, by_name=True)
        network = spec.network
        karpenter = Karpenter(
            self,
            "Karpenter",
            cluster=joined,
            is_isolated=isinstance(network, NewNetwork) and network.egress == "closed",
            mirror=mirror_of(spec),
        )
        software = KubernetesSoftware(
            self,
            "Software",
            cluster=joined,
            vpc_subnets=ec2.SubnetSelection(subnets=place.service_subnets(self) or here.subnets),
        )
        karpenter.install(software)
        publish(self, "RoleName", karpenter.role.role_name, description="Role of Karpenter's controller")
        token = software.kubectl.service_token
        publish(self, "ServiceToken", token, description="Function that applies the objects of node pools")

    def import_into(self, reader: cdk.Stack, cluster: IEksGpuCluster) -> tuple[IKarpenter, KubernetesSoftware]:
        """Karpenter, and what applies its objects, imported into the stack of a node pool."""
        karpenter = Karpenter.from_karpenter_attributes(
            reader, "Karpenter", cluster=cluster, role_name=read(reader, self, "RoleName")
        )
        token = read(reader, self, "ServiceToken")
        return karpenter, KubernetesSoftware(reader, "Software", cluster=cluster, service_token=token)


#: kubectl does not prune them: one that stayed would go on to change the number of servers, or to run servers.
_APART = {
    "rollout": frozenset({"AnalysisTemplate", "Rollout"}),
    "autoscaler": frozenset({"HorizontalPodAutoscaler", "TriggerAuthentication", "ScaledObject"}),
}


class ServingStack(cdk.Stack):
    """Roles of the pods that serve models, which are there before these pods, whoever installs them."""

    def __init__(self, site: Site, cluster: EksStack | ExistingEks, monitoring: cdk.Stack | None) -> None:
        """Define the stack.

        Args:
            site: What the stacks of the cluster have in common.
            cluster: The cluster.
            monitoring: Stack with the workspace of the metrics; None if nothing here reads them.
        """
        spec = site.spec.eks
        name = serving_stack(site.spec.name)
        super().__init__(site.app, name, env=site.env, description="Roles of model servers of a GPU cluster")
        self._spec, self._site, self._cluster, self._monitoring = site.spec, site, cluster, monitoring
        here = cluster.import_into(self, site.place.vpc(self))
        if spec.gateway is not None:
            LoadBalancerController(self, "LoadBalancers", cluster=here)
            if spec.gateway.hosted_zone is not None:
                zone = spec.gateway.hosted_zone
                ExternalDns(
                    self,
                    "Names",
                    cluster=here,
                    zone=route53.HostedZone.from_hosted_zone_attributes(
                        self, "Zone", hosted_zone_id=zone.zone_id, zone_name=zone.zone_name
                    ),
                )
        if monitoring is not None:
            arn = read(self, monitoring, "WorkspaceArn")
            workspace = MetricsWorkspace.from_metrics_workspace_attributes(self, "Workspace", workspace_arn=arn)
            if spec.software.keda:
                Keda(self, "Keda", cluster=here, workspace=workspace)
            if spec.software.argo_rollouts:
                ArgoRollouts(self, "Rollouts", cluster=here, workspace=workspace)

    def names(self, reader: cdk.Stack) -> ServingNames:
        """What charts and objects name, for the stack that installs them after this one."""
        reader.add_stack_dependency(self)
        known = serving_names(self._spec)
        monitoring = self._monitoring
        return ServingNames(
            cluster_name=read(reader, self._cluster, "ClusterName")
            if isinstance(self._cluster, EksStack)
            else known.cluster_name,
            vpc_id=self._site.place.vpc_id(reader),
            workspace_id=known.workspace_id if monitoring is None else read(reader, monitoring, "WorkspaceId"),
        )


class SoftwareStack(cdk.Stack):
    """Charts, queues, volumes and model servers of a cluster on EKS: it follows the fleets, and none waits for it."""

    def __init__(
        self,
        site: Site,
        cluster: EksStack | ExistingEks,
        serving: ServingStack | None = None,
        *,
        autoscaled: Mapping[cdk.Stack, EksGpuNodeGroup] = MappingProxyType({}),
    ) -> None:
        """Define the stack.

        Args:
            site: What the stacks of the cluster have in common.
            cluster: The cluster.
            serving: Stack with the roles of what serves models; None if nothing needs one.
            autoscaled: Node groups that the Cluster Autoscaler sizes, by their stacks; without one it is not installed.
        """
        spec, place = site.spec, site.place
        name = software_stack(spec.name)
        super().__init__(site.app, name, env=site.env, description="Software of a GPU cluster on Kubernetes")
        here = place.import_into(self)
        pools = node_pools(spec, _volumes(self, spec, site.stores))
        names = None if serving is None else serving.names(self)
        software = KubernetesSoftware(
            self,
            "Software",
            cluster=cluster.import_into(self, here.vpc),
            vpc_subnets=ec2.SubnetSelection(subnets=place.service_subnets(self) or here.subnets),
        )
        for path, objects in definitions(spec).items():
            software.apply(path.replace("/", "-"), objects)
        for release in releases(spec, pools.values(), names):
            software.install(release)
        if autoscaled:
            ClusterAutoscaler(
                self,
                "Autoscaler",
                cluster=software.cluster,
                groups=list(autoscaled.values()),
                node_group_names=[read(self, one, "NodeGroupName") for one in autoscaled],
                mirror=mirror_of(spec),
            ).install(software)
        if spec.eks.gateway is not None:
            # Without it a rollout goes on before requests reach new servers.
            namespace = f"namespace/{DEFAULT_NAMESPACE}"
            software.label("ReadinessGates", namespace, READINESS_LABEL, value="enabled", otherwise="disabled")
        alone = frozenset().union(*_APART.values())
        for path, manifest in applied(spec, pools, names).items():
            name = path.replace("/", "-")
            software.apply(name, [one for one in manifest.objects if one["kind"] not in alone])
            for part, kinds in _APART.items():
                objects = [one for one in manifest.objects if one["kind"] in kinds]
                if objects:
                    software.apply(f"{name}-{part}", objects)


def _volumes(reader: cdk.Stack, spec: ClusterSpec, stores: Mapping[str, Store]) -> dict[str, SharedVolume]:
    """The file systems as the deployment knows them."""
    found: dict[str, SharedVolume] = {}
    for name, store in stores.items():
        if isinstance(store, HomeStack | ExistingHomes):
            homes, of = store.import_into(reader), spec.data[name]
            found[name] = NfsVolume(
                name=name,
                dns_name=homes.dns_name,
                export_path=homes.export_path,
                options=homes.nfs_options,
                storage_capacity_gib=of.openzfs.storage_capacity_gib if isinstance(of, OpenZfsSpec) else None,
            )
        elif isinstance(store, LustreStack | ExistingLustre):
            reached, written = store.import_into(reader), spec.data[name]
            found[name] = LustreVolume(
                name=name,
                file_system_id=reached.file_system_id,
                dns_name=reached.dns_name,
                mount_name=reached.mount_name,
                storage_capacity_gib=written.lustre.storage_capacity_gib if isinstance(written, LustreSpec) else None,
            )
    return found
