"""A group of GPU nodes that Amazon EKS manages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IDependable

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import (
    arn_of,
    partition_of,
    path_of,
    report,
    resolved_or_none,
    stack_of,
)
from cdk_gpu_clusters._template import Resources
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.capacity.placement_group import ClusterPlacementGroup
from cdk_gpu_clusters.compute.alarms import NodeAlarms
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.compute.fleet_mounts import MountableFileSystem, NfsFileSystem, join_stores
from cdk_gpu_clusters.compute.fleet_network import egress_dependency, host_groups, id_of, join_fabric
from cdk_gpu_clusters.compute.fleet_props import FleetProps, check_keywords
from cdk_gpu_clusters.compute.fleet_request import node_request, resolve_fleet
from cdk_gpu_clusters.compute.launch_template import GpuLaunchTemplate
from cdk_gpu_clusters.compute.node_asset import NodeAsset, write_node
from cdk_gpu_clusters.compute.node_records import evidence_of, node_log_group
from cdk_gpu_clusters.compute.reconcile import (
    BEFORE_GROUP,
)
from cdk_gpu_clusters.compute.root_volume import allow_auto_scaling
from cdk_gpu_clusters.fleet.node_group import NodeGroupPlan, NodeGroupRequest, plan_node_group
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.fleet.profile import EKS_MANAGED
from cdk_gpu_clusters.kubernetes.node_pool import LustreVolume, NfsVolume, NodePool, SharedVolume
from cdk_gpu_clusters.orchestration.eks.node_role import EksNodeRole, allow_nodes
from cdk_gpu_clusters.orchestration.eks.reconcile import node_group_calls
from cdk_gpu_clusters.orchestration.service_node_group import ServiceNodeGroup
from cdk_gpu_clusters.rules.fleet import AlarmSettings
from cdk_gpu_clusters.rules.interfaces import Orchestrator
from cdk_gpu_clusters.rules.kubernetes_labels import NodeTaint
from cdk_gpu_clusters.rules.mig import MigStrategy
from cdk_gpu_clusters.rules.node_group import CAPACITY_TYPES, NodeRepair, UpdateStrategy

if TYPE_CHECKING:
    from cdk_gpu_clusters.catalogue import InstanceType

_EFFECTS = {"NoSchedule": "NO_SCHEDULE", "PreferNoSchedule": "PREFER_NO_SCHEDULE", "NoExecute": "NO_EXECUTE"}


_RECONCILE = AcceptedFinding(
    cause="`EksGpuNodeGroup`: policy of the state machine that keeps paid capacity filled",
    reason="Log delivery, tracing, metrics and descriptions have no resource level, and the ARN of the node group "
    "holds an id that only EKS knows.",
    aws_solutions=("IAM5",),
)


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


class EksGpuNodeGroup(ServiceNodeGroup):
    """Nodes of one type in a cluster of Amazon EKS: one managed node group on a `GpuLaunchTemplate`.

    What a `GpuFleet` is on plain EC2, with the same node software and rules. Makes the launch template, the node group,
    a role, a log group, and, where none is given, an EFA security group and a cluster placement group; for a Capacity
    Block also the state machine that grows the group.

    * A node that does not get through its boot never starts kubelet, and takes no work.
    * On reserved capacity, and on capacity with an end, a state machine keeps a group of a fixed size filled.
    * A new launch-template version never replaces running nodes unless you set `update_policy`.
    * Reserved capacity, and types that EC2 sells as Capacity Blocks, are updated terminate-before-launch
      (`UpdateStrategy` MINIMAL).
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
        alarms: The alarms, whose recipients `alarms.add_topic` sets; None if there are none.
        cfn_nodegroup: The node group, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: JoinedCluster,
        instance_type: str | ec2.InstanceType,
        **options: Unpack[EksGpuNodeGroupProps],
    ) -> None:
        """Define the node group.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster that the nodes join: an `EksGpuCluster`, or an imported one.
            instance_type: Type of every node, such as `p5.48xlarge`.
            options: Those of `EksGpuNodeGroupProps`; all but the size may be left out.

        Raises:
            ConfigError: GPU-FLT-001 to -005, GPU-EKS-003, -004 and -040 to -047, GPU-MNT-001 to -003; faults of type,
                capacity, interfaces and MIG.
        """
        super().__init__(scope, construct_id)
        check_keywords(self, options, EksGpuNodeGroupProps)
        fleet = resolve_fleet(self, profile=EKS_MANAGED, vpc=cluster.vpc, instance_type=instance_type, options=options)
        plan, mounts, root_volume = fleet.plan, options.get("mounts") or {}, options.get("root_volume")
        update_policy = options.get("update_policy", UpdatePolicy.NEVER_REPLACE)
        if plan.interfaces_or_none is None:  # nothing else can be decided
            report(self, list(plan.findings))
        group = plan_node_group(
            plan,
            NodeGroupRequest(
                name=construct_id,
                kubernetes_version=resolved_or_none(cluster.kubernetes_version),
                mig_strategy=options.get("mig_strategy"),
                labels=options.get("labels") or {},
                taints=options.get("taints"),
                kubelet_config=options.get("kubelet_config") or {},
                prefix_delegation=options.get("prefix_delegation", False),
                release_version=resolved_or_none(options.get("release_version")),
                max_unavailable=options.get("max_unavailable", 1),
                rolls=update_policy is UpdatePolicy.ROLLING,
                update_strategy=options.get("update_strategy"),
                repair=options.get("node_repair", NodeRepair()),
                mounts=_volumes(mounts, options.get("read_only_mounts", ())),
                hardware_group=None if fleet.placement_group is None else path_of(fleet.placement_group),
            ),
        )
        report(self, [*plan.findings, *group.findings])
        self.plan: FleetPlan = plan
        self.node_pool: NodePool = group.pool
        self.labels: Mapping[str, str] = group.pool.labels
        self.taints: tuple[NodeTaint, ...] = group.pool.taints
        self.fabric: ec2.ISecurityGroup | None = join_fabric(self, plan, vpc=cluster.vpc, fabric=options.get("fabric"))
        self.placement_group: ec2.IPlacementGroup | None = fleet.placement_group
        if plan.new_placement:
            self.placement_group = ClusterPlacementGroup(self, "Placement", strategy=plan.new_placement)
        log_key = options.get("log_encryption_key")
        self.log_group: logs.ILogGroup = node_log_group(
            self, options.get("log_retention", logs.RetentionDays.ONE_MONTH), log_key
        )
        if root_volume and root_volume.encryption_key:
            allow_auto_scaling(root_volume.encryption_key)
        evidence = evidence_of(self, options)
        request = node_request(
            options,
            log_group_name=self.log_group.log_group_name,
            evidence_uri=None if evidence is None else evidence.uri,
            node_config=group.node_config,
        )
        user_data, asset = write_node(self, plan, request)
        self.node_asset: NodeAsset = asset
        self.role: iam.IRole = options.get("role") or EksNodeRole(
            self, "Role", cni_from_node_role=cluster.cni_from_node_role
        )
        nodes_need = allow_nodes(
            self,
            self.role,
            self.node_asset,
            update_policy,
            self.log_group,
            evidence,
            cluster_name=cluster.cluster_name,
            name_tag=path_of(self),
        )
        self.launch_template: GpuLaunchTemplate = GpuLaunchTemplate(
            self,
            f"LaunchTemplate{group.hardware}",
            instance_type=plan.instance_type.name,
            orchestrator=Orchestrator.EKS_MANAGED,
            fabric=self.fabric,
            security_groups=[
                *host_groups(self, plan, vpc=cluster.vpc, fabric=self.fabric),
                cluster.cluster_security_group,
                *cluster.node_security_groups,
                *options.get("security_groups", ()),
            ],
            placement_group=self.placement_group,
            root_volume=root_volume,
            name_tag=path_of(self),
            metadata_hop_limit=options.get("metadata_hop_limit", 1),
            user_data=user_data,
            not_secret=options.get("not_secret", ()),
            _resolved=fleet,
        )
        join_stores(self, plan, mounts, self.launch_template.security_groups[0], subnets=fleet.subnets)
        ways_out = [egress_dependency(subnet) for subnet in fleet.subnets]
        self.cfn_nodegroup: eks.CfnNodegroup = managed_nodes(
            self,
            f"Resource{group.hardware}",
            cluster=cluster,
            role_arn=self.role.role_arn,
            subnet_ids=[id_of(subnet) for subnet in fleet.subnets],
            template=self.launch_template.cfn_launch_template,
            plan=plan,
            group=group,
            release_version=options.get("release_version"),
            needs=[*nodes_need, *cluster.node_prerequisites, *ways_out],
        )
        settings = options.get("alarms", AlarmSettings())
        # EKS makes the name of the group, and the policy must not wait for it.
        group_arns = arn_of(self, "eks", f"nodegroup/{cluster.cluster_name}/*/*")
        reconcile: Resources = {}
        if plan.windows and plan.keeps_size:
            reconcile = self._reconcile(
                fleet,
                node_group_calls(partition_of(stack_of(self)), group_arns),
                self.cfn_nodegroup,
                windows=plan.windows,
                raises_alarms=settings is not None,
                log_key_arn=None if log_key is None else log_key.key_arn,
            )
        self.alarms: NodeAlarms | None = self._watch(
            plan,
            settings,
            reconcile,
            self.cfn_nodegroup,
            accepted=_RECONCILE,
            group_arns=group_arns,
            before=BEFORE_GROUP,
        )

    @property
    def node_group_name(self) -> str:
        """Name of the node group, known at deployment."""
        return self.cfn_nodegroup.attr_nodegroup_name

    @property
    def fleet_name(self) -> str:
        """Name of the node group, as `node_group_name`."""
        return self.node_group_name

    @property
    def _instance_tags(self) -> Mapping[str, str]:
        # EKS may tag an instance with these two keys as it launches it (AWS managed policy reference,
        # AWSServiceRoleForAmazonEKSNodegroup, v11), and users see both on their nodes (eksctl-io/eksctl, issue 2607).
        return {
            "eks:nodegroup-name": self.node_group_name,
            "eks:cluster-name": self.cfn_nodegroup.attr_cluster_name,
        }


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


def managed_nodes(
    scope: Construct,
    construct_id: str,
    *,
    cluster: JoinedCluster,
    role_arn: str,
    subnet_ids: Sequence[str],
    template: ec2.CfnLaunchTemplate,
    plan: FleetPlan,
    group: NodeGroupPlan,
    release_version: str | None,
    needs: Sequence[IDependable],
) -> eks.CfnNodegroup:
    """Define the node group, as the resource that CloudFormation takes; ids may be tokens.

    It has no name of its own, no disk size, no remote access and no instance types: the name and the types change only
    with the entire group, and EKS takes the others from the launch template.

    EKS keeps every node of a group on one version of the template, and replaces all when it changes. So a group whose
    nodes are never replaced stays on the default version, which CloudFormation leaves alone (AWS::EC2::LaunchTemplate
    reference, DefaultVersionNumber), and on the Kubernetes version that the cluster had when the group was made.
    """
    rolls = group.request.rolls
    sizes = {"minSize": plan.minimum, "maxSize": plan.maximum, "desiredSize": group.desired_size}
    # Dictionaries in camel case, which CDK passes on as given.
    made = eks.CfnNodegroup(
        scope,
        construct_id,
        cluster_name=cluster.cluster_name,
        node_role=role_arn,
        subnets=list(subnet_ids),
        ami_type=group.ami_type,
        capacity_type=CAPACITY_TYPES[plan.terms.kind].value,
        launch_template={
            "id": template.ref,
            "version": template.attr_latest_version_number if rolls else template.attr_default_version_number,
        },
        version=cluster.kubernetes_version if rolls else None,
        release_version=release_version,
        scaling_config=sizes,
        update_config={
            "maxUnavailable": group.request.max_unavailable,
            "updateStrategy": group.update_strategy.value,
        },
        node_repair_config=_repair(group.request.repair, plan.instance_type),
        labels=dict(group.pool.labels),
        taints=[
            {"key": taint.key, "value": taint.value, "effect": _EFFECTS[taint.effect]} for taint in group.pool.taints
        ]
        or None,
    )
    made.node.add_dependency(*needs)
    scope.node.default_child = made
    return made


def _repair(repair: NodeRepair, instance_type: InstanceType) -> dict[str, Any]:
    if not repair.enabled:
        return {"enabled": False}
    limits = {
        "maxUnhealthyNodeThresholdPercentage": repair.max_unhealthy_percentage,
        "maxParallelNodesRepairedCount": repair.max_parallel_count,
    }
    overrides = [
        {
            "nodeMonitoringCondition": one.condition,
            "nodeUnhealthyReason": one.reason,
            "minRepairWaitTimeMins": one.wait_minutes,
            "repairAction": one.action.value,
        }
        for one in repair.overrides_for(instance_type)
    ]
    return {
        "enabled": True,
        **{name: value for name, value in limits.items() if value is not None},
        **({"nodeRepairConfigOverrides": overrides} if overrides else {}),
    }
