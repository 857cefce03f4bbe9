"""A fleet of GPU nodes on plain EC2: one Auto Scaling group, right for its capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk_gpu_clusters._cdk import errors_at, known, report
from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.capacity.placement_group import ClusterPlacementGroup
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as catalogue_type
from cdk_gpu_clusters.compute.auto_scaling_group import (
    GroupParts,
    UpdatePolicy,
    auto_scaling_group,
)
from cdk_gpu_clusters.compute.block_lifecycle import CapacityBlockLifecycle
from cdk_gpu_clusters.compute.fleet_checks import (
    check_addresses_left,
    check_reservation_zone,
    check_subnets,
)
from cdk_gpu_clusters.compute.fleet_node import fleet_node_settings
from cdk_gpu_clusters.compute.launch_template import GpuLaunchTemplate
from cdk_gpu_clusters.compute.node_image import NodeImage
from cdk_gpu_clusters.compute.node_role import NodeRole
from cdk_gpu_clusters.compute.root_volume import RootVolume
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.network.efa_security_group import EfaSecurityGroup
from cdk_gpu_clusters.node.settings import NodeSettings, UserPart, check_settings
from cdk_gpu_clusters.node.user_data import render_user_data
from cdk_gpu_clusters.rules.capacity import CapacityKind, PlacementUse, block_window, decide_capacity
from cdk_gpu_clusters.rules.capacity_checks import check_capacity
from cdk_gpu_clusters.rules.efa_choice import uses_efa
from cdk_gpu_clusters.rules.fleet import check_size, check_timeout
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, plan_interfaces
from cdk_gpu_clusters.rules.ip_budget import IpDemand
from cdk_gpu_clusters.rules.placement import PlacementStrategy, check_placement


class GpuFleet(Construct):
    """Nodes of one type, launched from one template into one Auto Scaling group.

    Makes the launch template, the group with its lifecycle hooks, a role and instance profile, a log group for boot
    events, and, where none is given, an EFA security group and a cluster placement group. For a Capacity Block it also
    makes the state machine that grows and drains the group.

    * A node becomes InService only when its boot has completed the `node-ready` hook; otherwise it is terminated.
    * The template never carries `DesiredCapacity`: a deployment never resizes a live group.
    * A new launch-template version never replaces running nodes unless `update_policy` says so.
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
        launch_template: The launch template construct.
        fabric: Security group in which the nodes exchange EFA traffic, None without EFA.
        placement_group: Placement group of the nodes, None where the capacity forbids or needs none.
        role: Role of the nodes.
        log_group: Boot events of the nodes, one stream per instance.
        block_lifecycle: State machine of a Capacity Block, None for other capacity.
        cfn_auto_scaling_group: The group, as an escape hatch.
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
        environment: Mapping[str, str] | None = None,
        user_data_parts: Sequence[UserPart] = (),
        update_policy: UpdatePolicy = UpdatePolicy.NEVER_REPLACE,
        ready_timeout: cdk.Duration | None = None,
        drain_timeout: cdk.Duration | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
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
            fabric: Security group of the EFA fabric, to share with other fleets of the same type; a new
                `EfaSecurityGroup` if left out.
            security_groups: Further groups of the interfaces that have an IP address.
            placement: Strategy of a placement group to make, or `NONE`; decided by the capacity if left out.
            placement_group: An existing placement group to use; excludes `placement`.
            image: Image; the newest recommended one of the type at each deployment if left out; running nodes keep
                theirs.
            root_volume: Root volume; 200 GiB encrypted gp3 if left out.
            role: Role of the nodes; a new one with Systems Manager access and the fleet's own hooks if left out. An
                imported role gets no permissions: see `NodeRole` for what it needs.
            environment: Variables for every login and job on the node, such as NCCL settings.
            user_data_parts: Further user-data parts, after the fleet's own.
            update_policy: Whether a new template version replaces running nodes; never if left out.
            ready_timeout: How long a node's boot may take, 30 to 7,200 seconds; 30 minutes if left out.
            drain_timeout: How long a node may take to stop its work, 30 to 7,200 seconds; 5 minutes if left out.
            log_retention: How long boot events are kept; one month if left out.

        Raises:
            ConfigError: GPU-FLT-001 to -005, and the faults of type, capacity, placement, interfaces and image.
        """
        super().__init__(scope, construct_id)
        self._capacity = capacity or Capacity.on_demand()
        name = instance_type if isinstance(instance_type, str) else instance_type.to_string()
        with errors_at(self):
            self.catalogue_type: InstanceType = catalogue_type(name)
            self._efa = uses_efa(self.catalogue_type, efa)
            self._plan = plan_interfaces(self.catalogue_type, policy=interface_policy, efa=self._efa)
        self._decision = decide_capacity(self._capacity.terms, efa=self._efa)
        self._vpc = vpc
        self._subnets = _select(vpc, vpc_subnets)
        minimum = node_count if min_node_count is None else min_node_count
        maximum = node_count if max_node_count is None else max_node_count
        ready_seconds = int((ready_timeout or cdk.Duration.minutes(30)).to_seconds())
        drain_seconds = int((drain_timeout or cdk.Duration.minutes(5)).to_seconds())
        report(
            self,
            [
                *check_size(minimum, maximum),
                *check_timeout("ready_timeout", ready_seconds),
                *check_timeout("drain_timeout", drain_seconds),
                *self._check_place(maximum, placement, placement_group),
            ],
        )
        least, most = minimum or 0, maximum or 0  # nothing given is refused above
        self.fabric = fabric or (EfaSecurityGroup(self, "Fabric", vpc=vpc) if self._efa else None)
        if isinstance(self.fabric, EfaSecurityGroup):
            report(self, self.fabric.admit(self.catalogue_type))
        self.placement_group = self._choose_placement_group(placement, placement_group)
        self.log_group = logs.LogGroup(
            self, "Logs", retention=log_retention, removal_policy=cdk.RemovalPolicy.DESTROY
        )
        self.role: iam.IRole = role or NodeRole(self, "Role")
        self.launch_template = GpuLaunchTemplate(
            self,
            "LaunchTemplate",
            instance_type=name,
            capacity=self._capacity,
            interface_policy=interface_policy,
            efa=self._efa,
            fabric=self.fabric,
            security_groups=security_groups or self._own_groups(),
            placement_group=self.placement_group,
            instance_profile=iam.InstanceProfile(self, "InstanceProfile", role=self.role),
            image=image,
            root_volume=root_volume,
            user_data=self._user_data(
                fleet_node_settings(
                    self.catalogue_type,
                    self._plan,
                    fleet_name=self.node.path,
                    log_group_name=self.log_group.log_group_name,
                    is_spot=self._capacity.terms.kind is CapacityKind.SPOT,
                    ready_timeout_seconds=ready_seconds,
                    drain_timeout_seconds=drain_seconds,
                    environment=environment or {},
                    user_parts=tuple(user_data_parts),
                )
            ),
        )
        self.connections = ec2.Connections(security_groups=self.launch_template.security_groups)
        self.cfn_auto_scaling_group = auto_scaling_group(
            self,
            "Resource",
            GroupParts(
                launch_template_id=self.launch_template.launch_template_id,
                launch_template_version=self.launch_template.latest_version_number,
                subnet_ids=[subnet.subnet_id for subnet in self._subnets],
                minimum=0 if self._decision.size_changes_after_deploy else least,
                maximum=most,
                terminates_before_launch=self._decision.terminates_before_launch,
                ready_timeout_seconds=ready_seconds,
                drain_timeout_seconds=drain_seconds,
                update_policy=update_policy,
            ),
        )
        self.node.default_child = self.cfn_auto_scaling_group
        for subnet in self._subnets:  # a node's first boot needs the way out
            self.cfn_auto_scaling_group.node.add_dependency(subnet.internet_connectivity_established)
        if isinstance(self.role, NodeRole):
            self.role.allow_fleet(group_name=self.fleet_name, log_group=self.log_group)
        self.block_lifecycle = self._follow_block(most)
        for named in (self.launch_template, self.cfn_auto_scaling_group):
            cdk.Tags.of(named).add("Name", self.node.path)

    @property
    def fleet_name(self) -> str:
        """Name of the Auto Scaling group, known at deployment."""
        return str(self.cfn_auto_scaling_group.ref)

    @property
    def session_command(self) -> str:
        """A shell line that opens a Systems Manager session on the first node."""
        region = cdk.Stack.of(self).region
        instance = (
            f"aws autoscaling describe-auto-scaling-groups --region {region} "
            f"--auto-scaling-group-names {self.fleet_name} "
            "--query 'AutoScalingGroups[0].Instances[0].InstanceId' --output text"
        )
        return f'aws ssm start-session --region {region} --target "$({instance})"'

    def grant_read(self, bucket: s3.IBucket) -> iam.Grant:
        """Let the nodes read a bucket."""
        return bucket.grant_read(self.role)

    def grant_read_write(self, bucket: s3.IBucket) -> iam.Grant:
        """Let the nodes read and write a bucket, such as one for checkpoints."""
        return bucket.grant_read_write(self.role)

    def metric(
        self, metric_name: str, *, statistic: str = "Average", period: cdk.Duration | None = None
    ) -> cloudwatch.Metric:
        """A metric of the group.

        Args:
            metric_name: Name in the namespace AWS/AutoScaling, such as `GroupInServiceInstances`.
            statistic: CloudWatch statistic.
            period: 1 minute if left out.
        """
        return self._metric("AWS/AutoScaling", metric_name, statistic, period)

    def metric_in_service_nodes(self) -> cloudwatch.Metric:
        """Nodes that passed their boot checks and take work."""
        return self.metric("GroupInServiceInstances")

    def metric_desired_nodes(self) -> cloudwatch.Metric:
        """Nodes that the group wants to have."""
        return self.metric("GroupDesiredCapacity")

    def metric_cpu_utilization(self) -> cloudwatch.Metric:
        """CPU use over all nodes, in percent."""
        return self._metric("AWS/EC2", "CPUUtilization", "Average", None)

    def _metric(
        self, namespace: str, name: str, statistic: str, period: cdk.Duration | None
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=namespace,
            metric_name=name,
            dimensions_map={"AutoScalingGroupName": self.fleet_name},
            statistic=statistic,
            period=period or cdk.Duration.minutes(1),
        )

    def _check_place(
        self,
        node_count: int | None,
        placement: PlacementStrategy | None,
        placement_group: ec2.IPlacementGroup | None,
    ) -> list[Finding]:
        kind = self._capacity.terms.kind
        strategy = placement or _strategy_of(placement_group)
        findings = check_capacity(
            self._capacity.known_terms,
            self.catalogue_type,
            node_count=node_count,
            region=known(cdk.Stack.of(self).region),
            placement=strategy,
            has_reservation_group=placement is None and self._capacity.placement_group is placement_group,
        )
        if strategy is not None:
            findings += check_placement(
                self.catalogue_type,
                strategy,
                node_count=node_count,
                efa=self._efa,
                zone_count=len(self._subnets),
            )
        findings += check_subnets(
            self._vpc,
            self._subnets,
            interface_count=len(self._plan.interfaces),
            one_zone=kind.is_reserved,
            efa=self._efa,
        )
        findings += check_reservation_zone(self._capacity.availability_zone, self._subnets)
        demand = IpDemand(
            nodes=node_count or 0,
            addresses_per_node=self._plan.ip_addresses_per_node,
            name=self.node.path,
        )
        return findings + check_addresses_left(self._subnets, demand)

    def _choose_placement_group(
        self, placement: PlacementStrategy | None, placement_group: ec2.IPlacementGroup | None
    ) -> ec2.IPlacementGroup | None:
        if placement_group is not None:
            return placement_group
        if placement is PlacementStrategy.NONE:
            return None
        if placement is not None:
            return ClusterPlacementGroup(self, "Placement", strategy=placement)
        if self._decision.placement is PlacementUse.OWN:
            return ClusterPlacementGroup(self, "Placement")
        return self._capacity.placement_group

    def _own_groups(self) -> list[ec2.ISecurityGroup]:
        if self.fabric is not None:
            return []
        return [ec2.SecurityGroup(self, "Host", vpc=self._vpc, description="GPU nodes: no way in")]

    def _user_data(self, settings: NodeSettings) -> str:
        report(self, check_settings(settings))
        return render_user_data(settings)

    def _follow_block(self, node_count: int) -> CapacityBlockLifecycle | None:
        window = block_window(self._capacity.terms)
        if window is None:
            return None
        return CapacityBlockLifecycle(
            self,
            "Block",
            group=self.cfn_auto_scaling_group,
            window=window,
            reservation_id=self._capacity.terms.reservation_id,
            node_count=node_count,
            log_group=self.log_group,
        )


def _select(vpc: ec2.IVpc, wish: ec2.SubnetSelection | None) -> list[ec2.ISubnet]:
    if wish is None:
        return vpc.select_subnets(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS).subnets
    return vpc.select_subnets(
        availability_zones=wish.availability_zones,
        one_per_az=wish.one_per_az,
        subnet_filters=wish.subnet_filters,
        subnet_group_name=wish.subnet_group_name,
        subnets=wish.subnets,
        subnet_type=wish.subnet_type,
    ).subnets


def _strategy_of(placement_group: ec2.IPlacementGroup | None) -> PlacementStrategy | None:
    if placement_group is None:
        return None
    if isinstance(placement_group, ClusterPlacementGroup):
        return placement_group.placement_strategy
    return PlacementStrategy.CLUSTER
