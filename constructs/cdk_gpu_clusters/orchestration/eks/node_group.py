"""A group of GPU nodes that Amazon EKS manages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._cdk import known, path_of, report
from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.capacity.placement_group import ClusterPlacementGroup
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.compute.fleet_groups import host_groups, join_fabric
from cdk_gpu_clusters.compute.fleet_mounts import MountableFileSystem, join_stores, lustre_mounts
from cdk_gpu_clusters.compute.fleet_request import resolve_fleet
from cdk_gpu_clusters.compute.fleet_subnets import id_of, way_out_of
from cdk_gpu_clusters.compute.launch_template import GpuLaunchTemplate
from cdk_gpu_clusters.compute.node_alarms import NodeAlarms
from cdk_gpu_clusters.compute.node_evidence import NodeEvidence
from cdk_gpu_clusters.compute.node_log_group import node_log_group
from cdk_gpu_clusters.compute.root_volume import RootVolume, allow_auto_scaling
from cdk_gpu_clusters.compute.written_node import write_node
from cdk_gpu_clusters.fleet.node import NodeRequest
from cdk_gpu_clusters.fleet.node_group import NodeGroupRequest, plan_node_group
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.fleet.profile import EKS_MANAGED
from cdk_gpu_clusters.kubernetes.node_pool import LustreVolume, NodePool
from cdk_gpu_clusters.node.mig import FabricManagerOrder
from cdk_gpu_clusters.node.settings import NodeWatch, UserDataPart
from cdk_gpu_clusters.node.software import NodeFile
from cdk_gpu_clusters.orchestration.eks.block_lifecycle import EksBlockLifecycle, follow_block
from cdk_gpu_clusters.orchestration.eks.managed_nodes import ManagedNodes, managed_nodes
from cdk_gpu_clusters.orchestration.eks.node_group_access import NodeGroupAccess
from cdk_gpu_clusters.orchestration.eks.node_role import EksNodeRole, allow_nodes
from cdk_gpu_clusters.rules.fleet_alarms import AlarmSettings
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator
from cdk_gpu_clusters.rules.kubernetes_labels import NodeTaint
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.mig_strategy import MigStrategy
from cdk_gpu_clusters.rules.node_group import NodeRepair
from cdk_gpu_clusters.rules.placement import PlacementStrategy

if TYPE_CHECKING:  # each takes long to load, or knows this module
    from aws_cdk import aws_kms as kms
    from aws_cdk import aws_s3 as s3

    from cdk_gpu_clusters.compute.node_asset import NodeAsset
    from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster


class EksGpuNodeGroup(NodeGroupAccess):
    """Nodes of one type in a cluster of Amazon EKS: one managed node group on a `GpuLaunchTemplate`.

    What a `GpuFleet` is on plain EC2, with the same node software and rules. Makes the launch template, the node group,
    a role, a log group, and, where none is given, an EFA security group and a cluster placement group; for a Capacity
    Block also the state machine that grows the group.

    * A node that does not get through its boot never starts kubelet, and takes no work.
    * A group that follows a block or that scales carries no `DesiredSize`: a deployment never resizes it.
    * A new launch-template version never replaces running nodes unless you set `update_policy`.
    * Reserved capacity is updated terminate-before-launch (`UpdateStrategy` MINIMAL).
    * Other hardware is another group: instance type, capacity, interfaces, placement. EKS changes none in place.

    Example:
        >>> cluster = EksGpuCluster.from_eks_gpu_cluster_attributes(
        ...     stack, "Research", vpc=vpc, cluster_name="research", cluster_security_group_id="sg-0123456789abcdef0",
        ...     kubernetes_version="1.34",
        ... )
        >>> trainers = EksGpuNodeGroup(
        ...     stack, "EksTrainers", cluster=cluster, vpc_subnets=ec2.SubnetSelection(subnets=[gpu_subnet]),
        ...     instance_type="p5.48xlarge", node_count=16,
        ...     capacity=Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z"),
        ... )

    Attributes:
        plan: What was decided about the group as about every fleet: type, interfaces, placement, size.
        launch_template: The launch template construct.
        fabric: Security group in which the nodes exchange EFA traffic, None without EFA.
        placement_group: Placement group of the nodes, None where the capacity forbids or needs none.
        role: Role of the nodes.
        log_group: Boot events of the nodes, one stream per instance.
        node_asset: Software of the nodes in S3.
        node_pool: The group as manifests know it.
        labels: Labels of the nodes.
        taints: Taints of the nodes.
        block_lifecycle: State machine of a Capacity Block, None for other capacity.
        alarms: The alarms, whose recipients `alarms.add_topic` sets; None if there are none.
        cfn_nodegroup: The node group, as an escape hatch.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: IEksGpuCluster,
        instance_type: str | ec2.InstanceType,
        node_count: int | None = None,
        min_node_count: int | None = None,
        max_node_count: int | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        capacity: Capacity | None = None,
        efa: bool | None = None,
        interface_policy: InterfacePolicy | None = None,
        fabric: ec2.ISecurityGroup | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] = (),
        placement: PlacementStrategy | None = None,
        placement_group: ec2.IPlacementGroup | None = None,
        root_volume: RootVolume | None = None,
        role: iam.IRole | None = None,
        mig: MigLayout | Sequence[MigLayout] | None = None,
        mig_strategy: MigStrategy | None = None,
        fabric_manager_order: FabricManagerOrder = FabricManagerOrder.AFTER,
        mounts: Mapping[str, MountableFileSystem] | None = None,
        scratch: bool = True,
        environment: Mapping[str, str] | None = None,
        user_data_parts: Sequence[UserDataPart] = (),
        node_files: Sequence[NodeFile] = (),
        watch: NodeWatch | None = None,
        evidence_bucket: s3.IBucket | None = None,
        evidence_prefix: str = "node-evidence",
        labels: Mapping[str, str] | None = None,
        taints: Sequence[NodeTaint] | None = None,
        kubelet_config: Mapping[str, Any] | None = None,
        prefix_delegation: bool = False,
        release_version: str | None = None,
        update_policy: UpdatePolicy = UpdatePolicy.NEVER_REPLACE,
        max_unavailable: int = 1,
        node_repair: NodeRepair = NodeRepair(),  # noqa: B008 - frozen
        ready_timeout: cdk.Duration | None = None,
        alarms: AlarmSettings | None = AlarmSettings(),  # noqa: B008 - frozen
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        log_encryption_key: kms.IKey | None = None,
    ) -> None:
        """Define the node group.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster that the nodes join.
            instance_type: Type of every node, such as `p5.48xlarge`.
            node_count: Fixed size; or give both bounds.
            min_node_count: Least nodes of a group that scales.
            max_node_count: Most nodes of a group that scales.
            vpc_subnets: Where the nodes stand; the VPC's private subnets if left out. One subnet with EFA.
            capacity: How the nodes are bought; on demand if left out.
            efa: Whether the nodes have EFA; accelerated types that have it use it if left out.
            interface_policy: Layout of the interfaces; full EFA bandwidth for one IP address if left out.
            fabric: Security group of the EFA fabric, to share with other groups; a new `EfaSecurityGroup` if left out.
            security_groups: Further groups of the interfaces with an IP address, beside the cluster's own.
            placement: Strategy of a placement group to make, or `NONE`; decided by the capacity if left out.
            placement_group: An existing group to use; excludes `placement`.
            root_volume: Root volume; 200 GiB encrypted gp3 if left out.
            role: Role of the nodes, with what EKS asks for; a new `EksNodeRole` if left out. Gets the group's policy.
            mig: How each GPU is split: one layout for all, or one per GPU; no split if left out. Excludes EFA.
            mig_strategy: How the device plugin shows split GPUs; each slice under its own name if left out.
            fabric_manager_order: Whether GPUs are split before or after NVIDIA's fabric manager starts; after it.
            mounts: FSx for Lustre file systems on the nodes themselves, by mount point, such as `{"/fsx": store}`.
            scratch: Whether the node's local disks become one file system, for containerd and pods.
            environment: Variables for every login and job on the node. Pods have their own.
            user_data_parts: Further user-data parts, after the group's own.
            node_files: Static files for the nodes, there before any other service starts unless `early=False`.
            watch: How the nodes are watched; every 10 seconds if left out.
            evidence_bucket: Gets a bundle of logs and tool output of each node that fails; it stays there if left out.
            evidence_prefix: What the keys of the bundles begin with; the group's path follows.
            labels: Further labels of the nodes. `gpu-cluster/fleet` names the group for pods; the id if left out.
            taints: Taints of the nodes; one of their accelerators, such as `nvidia.com/gpu`, if left out.
            kubelet_config: Fields of a `KubeletConfiguration`, over EKS's own; only `maxPods` if left out.
            prefix_delegation: Whether the cluster's VPC CNI gives nodes prefixes, not addresses; counts for `maxPods`.
            release_version: Release of EKS's image, such as `1.34.1-20260709`; another one replaces running nodes.
            update_policy: Whether a new version of template or cluster replaces running nodes; never if left out.
            max_unavailable: Nodes that an update replaces at once, 1 to 100; one if left out.
            node_repair: How EKS repairs nodes; as it does by default, but for faults of applications, if left out.
            ready_timeout: How long a node's boot may take, 30 to 7,200 seconds; 30 minutes if left out.
            alarms: When the group raises alarms on its nodes; the settings' own defaults if left out, none with None.
            log_retention: How long events and metrics of nodes are kept as logs; one month if left out.
            log_encryption_key: Key of the log group; CloudWatch's own if left out.

        Raises:
            ConfigError: GPU-FLT-001 to -005, GPU-EKS-003, -004 and -040 to -047, GPU-MNT-001 to -003; faults of type,
                capacity, interfaces and MIG.
        """
        super().__init__(scope, construct_id)
        fleet = resolve_fleet(
            self,
            profile=EKS_MANAGED,
            vpc=cluster.vpc,
            vpc_subnets=vpc_subnets,
            instance_type=instance_type,
            node_count=node_count,
            min_node_count=min_node_count,
            max_node_count=max_node_count,
            capacity=capacity,
            efa=efa,
            interface_policy=interface_policy,
            placement=placement,
            placement_group=placement_group,
            mig=mig,
            ready_timeout=ready_timeout,
        )
        plan = fleet.plan
        if plan.interfaces_or_none is None:  # nothing else can be decided
            report(self, list(plan.findings))
        group = plan_node_group(
            plan,
            NodeGroupRequest(
                name=construct_id,
                kubernetes_version=known(cluster.kubernetes_version),
                mig_strategy=mig_strategy,
                labels=labels or {},
                taints=taints,
                kubelet_config=kubelet_config or {},
                prefix_delegation=prefix_delegation,
                release_version=known(release_version),
                max_unavailable=max_unavailable,
                repair=node_repair,
                mounts=_volumes(mounts or {}),
                hardware_group=None if fleet.placement_group is None else path_of(fleet.placement_group),
            ),
        )
        report(self, [*plan.findings, *group.findings])
        self.plan: FleetPlan = plan
        self.node_pool: NodePool = group.pool
        self.labels: Mapping[str, str] = group.pool.labels
        self.taints: tuple[NodeTaint, ...] = group.pool.taints
        self.fabric: ec2.ISecurityGroup | None = join_fabric(self, plan, vpc=cluster.vpc, fabric=fabric)
        self.placement_group: ec2.IPlacementGroup | None = fleet.placement_group
        if plan.new_placement:
            self.placement_group = ClusterPlacementGroup(self, "Placement", strategy=plan.new_placement)
        self.log_group: logs.ILogGroup = node_log_group(self, log_retention, log_encryption_key)
        if root_volume and root_volume.encryption_key:
            allow_auto_scaling(root_volume.encryption_key)
        evidence = NodeEvidence(self, evidence_bucket, evidence_prefix) if evidence_bucket else None
        node = write_node(
            self,
            plan,
            NodeRequest(
                environment=environment or {},
                user_parts=tuple(user_data_parts),
                files=tuple(node_files),
                fabric_manager_order=fabric_manager_order,
                mounts=lustre_mounts(mounts or {}),
                scratch=scratch,
                watch=watch or NodeWatch(),
                log_group_name=self.log_group.log_group_name,
                evidence_uri=None if evidence is None else evidence.uri,
                node_config=group.node_config,
            ),
        )
        self.node_asset: NodeAsset = node.asset
        self.role: iam.IRole = role or EksNodeRole(self, "Role")
        nodes_need = allow_nodes(self, self.role, node.asset, update_policy, self.log_group, evidence)
        self.launch_template: GpuLaunchTemplate = GpuLaunchTemplate(
            self,
            f"LaunchTemplate{group.hardware}",
            instance_type=plan.instance_type.name,
            orchestrator=Orchestrator.EKS_MANAGED,
            fabric=self.fabric,
            security_groups=[
                *host_groups(self, vpc=cluster.vpc, fabric=self.fabric),
                cluster.cluster_security_group,
                *security_groups,
            ],
            placement_group=self.placement_group,
            root_volume=root_volume,
            name_tag=path_of(self),
            user_data=node.user_data,
            _resolved=fleet,
        )
        join_stores(self, plan, mounts or {}, self.launch_template.security_groups[0], subnets=fleet.subnets)
        ways_out = [way_out_of(subnet) for subnet in fleet.subnets]
        self.cfn_nodegroup: eks.CfnNodegroup = managed_nodes(
            self,
            f"Resource{group.hardware}",
            ManagedNodes(
                cluster_name=cluster.cluster_name,
                role_arn=self.role.role_arn,
                subnet_ids=[id_of(subnet) for subnet in fleet.subnets],
                template=self.launch_template.cfn_launch_template,
                plan=plan,
                group=group,
                kubernetes_version=cluster.kubernetes_version,
                release_version=release_version,
                update_policy=update_policy,
                needs=[*nodes_need, *cluster.node_prerequisites, *ways_out],
            ),
        )
        self.block_lifecycle: EksBlockLifecycle | None = follow_block(
            self,
            fleet.capacity.terms,
            node_count=plan.maximum,
            group=self.cfn_nodegroup,
            log_group=self.log_group,
        )
        self.alarms: NodeAlarms | None = self._raise_alarms(plan, alarms)


def _volumes(mounts: Mapping[str, MountableFileSystem]) -> dict[str, LustreVolume]:
    """File systems as pods mount them, as far as they know their own id; each is one volume, at however many points."""
    volumes: dict[MountableFileSystem, LustreVolume] = {}
    for point, store in mounts.items():
        if hasattr(store, "file_system_id") and store not in volumes:
            volumes[store] = LustreVolume(
                name=point.strip("/").replace("/", "-"),
                file_system_id=store.file_system_id,
                dns_name=store.dns_name,
                mount_name=store.mount_name,
            )
    return {point: volumes[store] for point, store in mounts.items() if store in volumes}
