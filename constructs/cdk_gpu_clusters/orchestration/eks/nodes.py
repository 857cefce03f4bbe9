"""What all groups of GPU nodes in a cluster of Amazon EKS share, whoever launches them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IDependable

from cdk_gpu_clusters._cdk import path_of, report, resolved_or_none
from cdk_gpu_clusters.capacity.placement_group import ClusterPlacementGroup
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.compute.fleet_mounts import MountableFileSystem, NfsFileSystem
from cdk_gpu_clusters.compute.fleet_network import host_groups, join_fabric
from cdk_gpu_clusters.compute.fleet_props import FleetProps, check_keywords
from cdk_gpu_clusters.compute.fleet_request import ResolvedFleet, node_request, resolve_fleet
from cdk_gpu_clusters.compute.node_asset import NodeAsset, write_node
from cdk_gpu_clusters.compute.node_records import evidence_of, node_log_group
from cdk_gpu_clusters.fleet.node_group import NodeGroupPlan, NodeGroupRequest, plan_node_group
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.fleet.profile import EKS_MANAGED
from cdk_gpu_clusters.kubernetes.node_pool import LustreVolume, NfsVolume, NodePool, SharedVolume
from cdk_gpu_clusters.orchestration.eks.node_role import CLUSTER_TAG, EksNodeRole, allow_nodes
from cdk_gpu_clusters.orchestration.service_node_group import ServiceNodeGroup
from cdk_gpu_clusters.rules.kubernetes_labels import NodeTaint
from cdk_gpu_clusters.rules.mig import MigStrategy
from cdk_gpu_clusters.rules.node_group import NodeRepair, UpdateStrategy


class EksGpuNodeGroupProps(FleetProps, total=False):
    """What only `EksGpuNodeGroup` takes, over and above `FleetProps`.

    Attributes:
        mig_strategy: How the device plugin shows split GPUs; each slice under its own name if left out.
        labels: Further labels of the nodes. `gpu-cluster/fleet` names the group for pods; the id if left out.
        taints: Taints of the nodes; one of their accelerators, such as `nvidia.com/gpu`, if left out.
        kubelet_config: Fields of a `KubeletConfiguration`, over EKS's own; only `maxPods` if left out.
        prefix_delegation: Whether the cluster's VPC CNI gives nodes prefixes, not addresses; counts for `maxPods`.
        release_version: Release of EKS's image, such as `1.34.1-20260709`; another one replaces running nodes.
        max_unavailable: Nodes that an update replaces at once, 1 to 100; one if left out.
        update_strategy: Whether old or new nodes come first in an update; by capacity and type if left out.
        metadata_hop_limit: Hops that an answer of the metadata service may take; 1 if left out. With 2, every pod can
            take the role of its node.
        node_repair: How EKS repairs nodes. As EKS does by default if left out, except for faults of applications.
    """

    mig_strategy: MigStrategy | None
    labels: Mapping[str, str] | None
    taints: Sequence[NodeTaint] | None
    kubelet_config: Mapping[str, Any] | None
    prefix_delegation: bool
    release_version: str | None
    max_unavailable: int
    update_strategy: UpdateStrategy | None
    metadata_hop_limit: int
    node_repair: NodeRepair


class JoinedCluster(Protocol):
    """What a node group needs of its cluster. An `IEksGpuCluster` has it."""

    @property
    def cluster_name(self) -> str: ...
    @property
    def cluster_security_group(self) -> ec2.ISecurityGroup: ...
    @property
    def node_security_groups(self) -> Sequence[ec2.ISecurityGroup]: ...
    @property
    def cni_from_node_role(self) -> bool: ...
    @property
    def kubernetes_version(self) -> str: ...
    @property
    def vpc(self) -> ec2.IVpc: ...
    @property
    def node_prerequisites(self) -> Sequence[IDependable]: ...


class EksNodes(ServiceNodeGroup):
    """Nodes of one type in a cluster of Amazon EKS: what was decided about them, their software, role and log group.

    Attributes:
        plan: What was decided about the group as about every fleet: type, interfaces, placement, size.
        fabric: Security group in which the nodes exchange EFA traffic, None without EFA.
        placement_group: Placement group of the nodes, None where the capacity forbids or needs none.
        role: Role of the nodes.
        log_group: Boot events of the nodes, one stream per instance.
        node_asset: Software of the nodes in S3.
        node_pool: The group as manifests know it.
        labels: Labels of the nodes.
        taints: Taints of the nodes.
    """

    plan: FleetPlan
    fabric: ec2.ISecurityGroup | None
    placement_group: ec2.IPlacementGroup | None
    role: iam.IRole
    log_group: logs.ILogGroup
    node_asset: NodeAsset
    node_pool: NodePool
    labels: Mapping[str, str]
    taints: tuple[NodeTaint, ...]

    def _decide(
        self,
        cluster: JoinedCluster,
        instance_type: str | ec2.InstanceType,
        options: EksGpuNodeGroupProps,
    ) -> tuple[ResolvedFleet, NodeGroupPlan]:
        """Decide what the group is made of; its findings are not reported yet.

        Args:
            cluster: The cluster that the nodes join.
            instance_type: Type of every node.
            options: The options of the construct.
        """
        check_keywords(self, options, EksGpuNodeGroupProps)
        fleet = resolve_fleet(self, profile=EKS_MANAGED, vpc=cluster.vpc, instance_type=instance_type, options=options)
        if fleet.plan.interfaces_or_none is None:  # nothing else can be decided
            report(self, list(fleet.plan.findings))
        group = plan_node_group(
            fleet.plan,
            NodeGroupRequest(
                name=self.node.id,
                kubernetes_version=resolved_or_none(cluster.kubernetes_version),
                mig_strategy=options.get("mig_strategy"),
                labels=options.get("labels") or {},
                taints=options.get("taints"),
                kubelet_config=options.get("kubelet_config") or {},
                prefix_delegation=options.get("prefix_delegation", False),
                release_version=resolved_or_none(options.get("release_version")),
                max_unavailable=options.get("max_unavailable", 1),
                rolls=_update_policy(options) is UpdatePolicy.ROLLING,
                update_strategy=options.get("update_strategy"),
                repair=options.get("node_repair", NodeRepair()),
                mounts=_volumes(options.get("mounts") or {}, options.get("read_only_mounts", ())),
                hardware_group=None if fleet.placement_group is None else path_of(fleet.placement_group),
            ),
        )
        return fleet, group

    def _prepare(
        self,
        cluster: JoinedCluster,
        fleet: ResolvedFleet,
        group: NodeGroupPlan,
        options: EksGpuNodeGroupProps,
        *,
        cluster_tag: str = CLUSTER_TAG,
        access: Construct | None = None,
    ) -> tuple[str, list[IDependable]]:
        """Define what the nodes are in, log to and may do, and write their user data.

        Args:
            cluster: The cluster that the nodes join.
            fleet: The fleet.
            group: The plan of the group.
            options: The options of the construct.
            cluster_tag: Tag by which an instance names its cluster.
            access: Construct below which the role and its rights are; the group itself if left out.

        Returns:
            The user data, and what a node's first boot needs.
        """
        plan = self.plan = fleet.plan
        self.node_pool = group.pool
        self.labels, self.taints = group.pool.labels, group.pool.taints
        self.fabric = join_fabric(self, plan, vpc=cluster.vpc, fabric=options.get("fabric"))
        self.placement_group = fleet.placement_group
        if plan.new_placement:
            self.placement_group = ClusterPlacementGroup(self, "Placement", strategy=plan.new_placement)
        self.log_group = node_log_group(
            self, options.get("log_retention", logs.RetentionDays.ONE_MONTH), options.get("log_encryption_key")
        )
        evidence = evidence_of(self, options)
        request = node_request(
            options,
            log_group_name=self.log_group.log_group_name,
            evidence_uri=None if evidence is None else evidence.uri,
            node_config=group.node_config,
        )
        user_data, self.node_asset = write_node(self, plan, request)
        self.role = options.get("role") or EksNodeRole(
            access or self, "Role", cni_from_node_role=cluster.cni_from_node_role
        )
        nodes_need = allow_nodes(
            self,
            self.role,
            self.node_asset,
            _update_policy(options),
            self.log_group,
            evidence,
            cluster_name=cluster.cluster_name,
            cluster_tag=cluster_tag,
            name_tag=path_of(self),
            access=access,
        )
        return user_data, nodes_need

    def _groups(self, cluster: JoinedCluster, options: EksGpuNodeGroupProps) -> list[ec2.ISecurityGroup]:
        """Security groups of the interfaces with an address, besides the fabric."""
        return [
            *host_groups(self, self.plan, vpc=cluster.vpc, fabric=self.fabric),
            cluster.cluster_security_group,
            *cluster.node_security_groups,
            *options.get("security_groups", ()),
        ]


def _update_policy(options: EksGpuNodeGroupProps) -> UpdatePolicy:
    return options.get("update_policy", UpdatePolicy.NEVER_REPLACE)


def _volumes(mounts: Mapping[str, MountableFileSystem], read_only: Collection[str]) -> dict[str, SharedVolume]:
    """File systems as pods mount them, as far as they know their own id; each is one volume, at however many points."""
    volumes: dict[MountableFileSystem, SharedVolume] = {}
    for point, store in mounts.items():
        if store in volumes:
            continue
        name = point.strip("/").replace("/", "-")
        if isinstance(store, NfsFileSystem):
            volumes[store] = NfsVolume(
                name=name, dns_name=store.dns_name, export_path=store.export_path, options=store.nfs_options
            )
        elif hasattr(store, "file_system_id"):
            volumes[store] = LustreVolume(
                name=name,
                file_system_id=store.file_system_id,
                dns_name=store.dns_name,
                mount_name=store.mount_name,
            )
    return {
        point: replace(volumes[store], read_only=point in read_only)
        for point, store in mounts.items()
        if store in volumes
    }
