"""A fleet of GPU nodes on plain EC2: one Auto Scaling group, right for its capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from cdk_gpu_clusters._cdk import DefinedResources, partition_of, path_of, report, stack_of
from cdk_gpu_clusters._template import att, ref
from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.capacity.placement_group import ClusterPlacementGroup
from cdk_gpu_clusters.compute.auto_scaling_group import GroupParts, UpdatePolicy
from cdk_gpu_clusters.compute.fleet_access import IGpuFleet, ImportedGpuFleet, LaunchedFleet
from cdk_gpu_clusters.compute.fleet_alarms import FleetAlarms, inspection_seconds
from cdk_gpu_clusters.compute.fleet_groups import host_groups, join_fabric
from cdk_gpu_clusters.compute.fleet_metrics import FleetMetrics
from cdk_gpu_clusters.compute.fleet_mounts import MountableFileSystem, join_stores, lustre_mounts
from cdk_gpu_clusters.compute.fleet_request import ResolvedFleet, resolve_fleet
from cdk_gpu_clusters.compute.fleet_resources import (
    GROUP,
    LOGS,
    ROLE,
    TEMPLATE,
    FleetParts,
    define_fleet,
    fleet_resources,
    group_arn_of,
)
from cdk_gpu_clusters.compute.fleet_subnets import id_of, new_way_out_of
from cdk_gpu_clusters.compute.launch_template import FleetLaunchTemplate, GpuLaunchTemplate
from cdk_gpu_clusters.compute.node_alarms import alarm_names
from cdk_gpu_clusters.compute.node_evidence import NodeEvidence
from cdk_gpu_clusters.compute.node_image import NodeImage
from cdk_gpu_clusters.compute.node_log_group import encrypt_logs, log_group
from cdk_gpu_clusters.compute.node_role import NodeRole
from cdk_gpu_clusters.compute.root_volume import RootVolume, allow_auto_scaling
from cdk_gpu_clusters.compute.written_node import write_node
from cdk_gpu_clusters.fleet.node import NodeRequest
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.node.mig import FabricManagerOrder
from cdk_gpu_clusters.node.settings import NodeWatch, UserDataPart
from cdk_gpu_clusters.node.software import NodeFile
from cdk_gpu_clusters.rules.fleet_alarms import AlarmSettings
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.placement import PlacementStrategy

if TYPE_CHECKING:  # each takes long to load, and few fleets need it
    from aws_cdk import aws_autoscaling as autoscaling
    from aws_cdk import aws_elasticloadbalancingv2 as elbv2
    from aws_cdk import aws_kms as kms
    from aws_cdk import aws_s3 as s3

    from cdk_gpu_clusters.compute.block_lifecycle import CapacityBlockLifecycle
    from cdk_gpu_clusters.compute.node_asset import NodeAsset


class GpuFleet(LaunchedFleet, FleetMetrics):
    """Nodes of one type, launched from one template into one Auto Scaling group.

    Makes the launch template, the group with its lifecycle hooks, a role and instance profile, a log group for boot
    events, and, where none is given, an EFA security group and a cluster placement group. For a Capacity Block it also
    makes the state machine that grows and drains the group.

    * A node becomes InService only when its boot has completed the `node-ready` hook; otherwise it is terminated.
    * The template never carries `DesiredCapacity`: a deployment never resizes a live group.
    * A new launch-template version never replaces running nodes unless you set `update_policy`.
    * Reserved capacity is replaced terminate-before-launch, since a full reservation has no spare slot.

    Example:
        >>> trainers = GpuFleet(
        ...     stack, "Trainers", vpc=vpc, vpc_subnets=ec2.SubnetSelection(subnets=[gpu_subnet]),
        ...     instance_type="p5.48xlarge", node_count=16,
        ...     capacity=Capacity.capacity_block(
        ...         "cr-0123456789abcdef0", starts_at="2026-12-01T11:30Z", ends_at="2026-12-15T11:30Z"
        ...     ),
        ... )

    Attributes:
        plan: What was decided about the fleet: type, interfaces, placement, size.
        launch_template: The launch template construct.
        fabric: Security group in which the nodes exchange EFA traffic, None without EFA.
        placement_group: Placement group of the nodes, None where the capacity forbids or needs none.
        node_asset: Software of the nodes in S3.
        block_lifecycle: State machine of a Capacity Block, None for other capacity.
        alarms: The alarms, whose recipients `alarms.add_topic` sets; None if there are none.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
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
        image: NodeImage | None = None,
        root_volume: RootVolume | None = None,
        role: iam.IRole | None = None,
        mig: MigLayout | Sequence[MigLayout] | None = None,
        fabric_manager_order: FabricManagerOrder = FabricManagerOrder.AFTER,
        mounts: Mapping[str, MountableFileSystem] | None = None,
        scratch: bool = True,
        environment: Mapping[str, str] | None = None,
        user_data_parts: Sequence[UserDataPart] = (),
        node_files: Sequence[NodeFile] = (),
        watch: NodeWatch | None = None,
        evidence_bucket: s3.IBucket | None = None,
        evidence_prefix: str = "node-evidence",
        target_groups: Sequence[elbv2.ITargetGroup] = (),
        update_policy: UpdatePolicy = UpdatePolicy.NEVER_REPLACE,
        ready_timeout: cdk.Duration | None = None,
        drain_timeout: cdk.Duration | None = None,
        alarms: AlarmSettings | None = AlarmSettings(),  # noqa: B008 - frozen
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        log_encryption_key: kms.IKey | None = None,
        _resolved: ResolvedFleet | None = None,
    ) -> None:
        """Define the fleet.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Network.
            instance_type: Type of every node, such as `p5.48xlarge`.
            node_count: Fixed size; or give both bounds.
            min_node_count: Least nodes of a fleet that scales.
            max_node_count: Most nodes of a fleet that scales.
            vpc_subnets: Where the nodes stand; the VPC's private subnets if left out. One subnet with EFA.
            capacity: How the nodes are bought; on demand if left out.
            efa: Whether the nodes have EFA; accelerated types that have it use it if left out.
            interface_policy: Layout of the interfaces; full EFA bandwidth for one IP address if left out.
            fabric: Security group of the EFA fabric, to share with other fleets; a new `EfaSecurityGroup` if left out.
            security_groups: Further groups of the interfaces that have an IP address.
            placement: Strategy of a placement group to make, or `NONE`; decided by the capacity if left out. `CLUSTER`
                takes the group of a reservation that was made in one.
            placement_group: An existing placement group to use; excludes `placement`.
            image: Image; the newest recommended one of the type if left out, for nodes that start after a deploy.
            root_volume: Root volume; 200 GiB encrypted gp3 if left out.
            role: Role of the nodes; a new `NodeRole` if left out. Gets the fleet's own managed policy.
            mig: How each GPU is split: one layout for all, or one per GPU; no split if left out. Excludes EFA.
            fabric_manager_order: Whether GPUs are split before or after NVIDIA's fabric manager starts; after it.
            mounts: FSx for Lustre file systems by mount point, such as `{"/fsx": store}`. A `LustreStore` lets the
                nodes in by itself. A node that cannot mount one is terminated, with the reason logged.
            scratch: Whether the node's local disks, where the type has some, become one file system at `/scratch`.
            environment: Variables for every login and job on the node, such as NCCL settings, or the places that
                `checkpoint_environment` gives.
            user_data_parts: Further user-data parts, after the fleet's own.
            node_files: Static files for the nodes, there before any other service starts unless `early=False`.
            watch: How the nodes are watched; every 10 seconds, and a host that is faulty is replaced, if left out.
            evidence_bucket: Gets a bundle of logs and tool output of each node that fails, before the node goes; the
                bundle stays on the node if left out.
            evidence_prefix: What the keys of the bundles begin with; the fleet's path follows.
            target_groups: Target groups of load balancers; nodes join when they are in service, and one that the
                load balancer finds unhealthy is replaced.
            update_policy: Whether a new template version replaces running nodes; never if left out.
            ready_timeout: How long a node's boot may take, 30 to 7,200 seconds; 30 minutes if left out.
            drain_timeout: How long a node may take to stop its work, as long (600 on a block); 5 minutes if left out.
            alarms: When the fleet raises alarms, and stops to launch nodes that fail; the settings' own defaults if
                left out, no alarms and no stop with None.
            log_retention: How long events and metrics of nodes are kept as logs; one month if left out.
            log_encryption_key: Key of the log group; CloudWatch's own if left out.

        Raises:
            ConfigError: GPU-FLT-001 to -007, GPU-ALM-001, GPU-MNT-001 to -003; faults of type, capacity, interfaces,
                MIG, image.
        """
        super().__init__(scope, construct_id)
        fleet = _resolved or resolve_fleet(
            self,
            vpc=vpc,
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
            image=image,
            mig=mig,
            ready_timeout=ready_timeout,
            drain_timeout=drain_timeout,
        )
        report(self, list(fleet.plan.findings))
        plan = fleet.plan
        self.plan: FleetPlan = plan
        self._subnets = fleet.subnets
        self.fabric: ec2.ISecurityGroup | None = join_fabric(self, plan, vpc=vpc, fabric=fabric)
        self.placement_group: ec2.IPlacementGroup | None = fleet.placement_group
        if plan.new_placement is not None:
            self.placement_group = ClusterPlacementGroup(self, "Placement", strategy=plan.new_placement)
        if log_encryption_key is not None:
            encrypt_logs(self, log_encryption_key)
        if root_volume is not None and root_volume.encryption_key is not None:
            allow_auto_scaling(root_volume.encryption_key)
        evidence = None if evidence_bucket is None else NodeEvidence(self, evidence_bucket, evidence_prefix)
        node_request = NodeRequest(
            environment=environment or {},
            user_parts=tuple(user_data_parts),
            files=tuple(node_files),
            fabric_manager_order=fabric_manager_order,
            mounts=lustre_mounts(mounts or {}),
            scratch=scratch,
            watch=watch or NodeWatch(),
            log_group_name=ref(LOGS),
            evidence_uri=None if evidence is None else evidence.uri,
            inspection_seconds=inspection_seconds(self, plan, alarms),
        )
        node = write_node(self, plan, node_request)
        self.node_asset: NodeAsset = node.asset
        template = FleetLaunchTemplate(
            self,
            "LaunchTemplate",
            instance_type=plan.instance_type.name,
            fabric=self.fabric,
            security_groups=security_groups or host_groups(self, vpc=vpc, fabric=self.fabric),
            placement_group=self.placement_group,
            root_volume=root_volume,
            associate_public_ip_address=fleet.is_public,
            name_tag=path_of(self),
            user_data=node.user_data,
            _resolved=fleet,
        )
        self.launch_template: GpuLaunchTemplate = template
        join_stores(self, plan, mounts or {}, template.security_groups[0], subnets=fleet.subnets)
        launch_template, values = template.define_with(lambda: self._resources.resource(TEMPLATE))
        self._given_role = role
        self._logs = (log_retention, log_encryption_key)
        parts = FleetParts(
            path=path_of(self),
            partition=partition_of(stack_of(self)),
            group_arn=group_arn_of(self),
            plan=plan,
            group=self._group(update_policy, target_groups),
            launch_template=launch_template,
            role_name=None if role is None else role.role_name,
            policy_arns=[node.asset.policy_arn],
            log_retention=log_retention,
            log_key_arn=None if log_encryption_key is None else log_encryption_key.key_arn,
            evidence=[] if evidence is None else evidence.statements(),
            alarms=alarms,
        )
        resources = fleet_resources(parts)
        self._resources: DefinedResources = define_fleet(self, parts, resources, values)
        if evidence is not None:
            evidence.accept_at(self._resources.scope)
        ways_out = [way_out for subnet in fleet.subnets if (way_out := new_way_out_of(subnet)) is not None]
        if ways_out:  # a node's first boot needs the way out
            self.cfn_auto_scaling_group.node.add_dependency(*ways_out)
        if role is not None:  # a node's first boot needs its software
            self.node_asset.read_policy.attach_to_role(role)
            self.cfn_auto_scaling_group.node.add_dependency(self.node_asset.read_policy)
        self.block_lifecycle: CapacityBlockLifecycle | None = self._follow_block(fleet.capacity)
        self.alarms: FleetAlarms | None = None
        if alarms is not None:
            self.alarms = FleetAlarms(alarm_names(resources), lambda: self._resources)

    @staticmethod
    def from_gpu_fleet_attributes(
        scope: Construct,
        construct_id: str,
        *,
        fleet_name: str,
        role: iam.IRole,
        security_groups: Sequence[ec2.ISecurityGroup],
    ) -> IGpuFleet:
        """Import a fleet, such as one of another app.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            fleet_name: Name of its Auto Scaling group.
            role: Role of its nodes.
            security_groups: Security groups of its nodes.
        """
        return ImportedGpuFleet(
            scope, construct_id, fleet_name=fleet_name, role=role, security_groups=security_groups
        )

    @cached_property
    def cfn_auto_scaling_group(self) -> autoscaling.CfnAutoScalingGroup:
        """The Auto Scaling group, as an escape hatch."""
        group: autoscaling.CfnAutoScalingGroup = self._resources.resource(GROUP)
        return group

    @cached_property
    def log_group(self) -> logs.ILogGroup:
        """Boot events of the nodes, one stream per instance."""
        return self._resources.replaced(LOGS, lambda: log_group(self, *self._logs))

    @cached_property
    def role(self) -> iam.IRole:
        """Role of the nodes."""
        if self._given_role is not None:
            return self._given_role
        policies = [self.node_asset.read_policy]
        return self._resources.replaced(ROLE, lambda: NodeRole(self, "Role", policies=policies))

    @cached_property
    def fleet_name(self) -> str:
        """Name of the Auto Scaling group, known at deployment."""
        return str(self.cfn_auto_scaling_group.ref)

    @property
    def fleet_path(self) -> str:
        """Path of the fleet in the app: its name in the metrics of its nodes."""
        return path_of(self)

    def _group(self, update_policy: UpdatePolicy, target_groups: Sequence[elbv2.ITargetGroup]) -> GroupParts:
        return GroupParts(
            name_tag=path_of(self),
            launch_template_id=ref(TEMPLATE),
            launch_template_version=att(TEMPLATE, "LatestVersionNumber"),
            subnet_ids=[id_of(subnet) for subnet in self._subnets],
            minimum=self.plan.minimum,
            maximum=self.plan.maximum,
            terminates_before_launch=self.plan.decision.terminates_before_launch,
            ready_timeout_seconds=self.plan.ready_timeout_seconds,
            drain_timeout_seconds=self.plan.drain_timeout_seconds,
            update_policy=update_policy,
            target_group_arns=[group.target_group_arn for group in target_groups],
        )

    def _main_resource(self) -> IConstruct:
        return self.cfn_auto_scaling_group

    def _follow_block(self, capacity: Capacity) -> CapacityBlockLifecycle | None:
        if not capacity.terms.kind.is_block:
            return None
        from cdk_gpu_clusters.compute.block_lifecycle import follow_block

        return follow_block(
            self,
            capacity.terms,
            node_count=self.plan.maximum,
            group=self.cfn_auto_scaling_group,
            log_group=self.log_group,
        )
