"""A fleet of GPU nodes on plain EC2: one Auto Scaling group, right for its capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from cdk_gpu_clusters._cdk import DefinedResources, partition_of, path_of, report, stack_of
from cdk_gpu_clusters._template import att, ref
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.capacity.placement_group import ClusterPlacementGroup
from cdk_gpu_clusters.compute.alarms import FleetAlarms, alarm_names, inspection_seconds
from cdk_gpu_clusters.compute.auto_scaling_group import GroupParts, UpdatePolicy, update_policy
from cdk_gpu_clusters.compute.fleet_access import IGpuFleet, ImportedGpuFleet, LaunchedFleet
from cdk_gpu_clusters.compute.fleet_jobs import grant_statements, job_tags, user_statements
from cdk_gpu_clusters.compute.fleet_mounts import join_stores
from cdk_gpu_clusters.compute.fleet_network import host_groups, id_of, join_fabric, new_egress_dependency
from cdk_gpu_clusters.compute.fleet_props import GpuFleetProps, check_keywords
from cdk_gpu_clusters.compute.fleet_request import ResolvedFleet, node_request, resolve_fleet, with_ray
from cdk_gpu_clusters.compute.fleet_resources import (
    BLOCKS,
    GROUP,
    JOB_REQUEST,
    JOBS,
    TEMPLATE,
    FleetParts,
    define_fleet,
    fleet_resources,
)
from cdk_gpu_clusters.compute.launch_stop import launch_alarm_name
from cdk_gpu_clusters.compute.launch_template import FleetLaunchTemplate, GpuLaunchTemplate
from cdk_gpu_clusters.compute.metrics import FleetMetrics
from cdk_gpu_clusters.compute.node_asset import NodeAsset, write_node
from cdk_gpu_clusters.compute.node_records import accept_records, evidence_of, logging_statements, node_log_group
from cdk_gpu_clusters.compute.node_role import NodeRole, grant_before
from cdk_gpu_clusters.compute.root_volume import allow_auto_scaling
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.rules.capacity import CapacityTerms
from cdk_gpu_clusters.rules.fleet import AlarmSettings

if TYPE_CHECKING:  # each takes long to load, and few fleets need it
    from aws_cdk import aws_autoscaling as autoscaling
    from aws_cdk import aws_elasticloadbalancingv2 as elbv2
    from aws_cdk import aws_s3 as s3

    from cdk_gpu_clusters.node.settings import NodeWatch


class GpuFleet(LaunchedFleet, FleetMetrics):
    """Nodes of one type, launched from one template into one Auto Scaling group.

    Makes the launch template, the group with its lifecycle hooks, a role and instance profile, a log group for boot
    events, and, where none is given, an EFA security group and a cluster placement group. For capacity that is reserved
    or ends, it also makes the state machine that keeps the group filled and drains it in time.

    * A node becomes InService only when its boot has completed the `node-ready` hook; otherwise it is terminated.
    * The template never carries `DesiredCapacity`: a deployment never resizes a live group.
    * A new launch-template version never replaces running nodes unless you set `update_policy`.
    * Reserved capacity is replaced terminate-before-launch, since a full reservation has no spare slot. Its group
      refuses to be deleted by force, which would end the nodes without their hooks.

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
        role: Role of the nodes.
        log_group: Boot events of the nodes, one stream per instance.
        alarms: The alarms, whose recipients `alarms.add_topic` sets; None if there are none.
    """

    _resources: DefinedResources | None = None

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        instance_type: str | ec2.InstanceType,
        _resolved: ResolvedFleet | None = None,
        **options: Unpack[GpuFleetProps],
    ) -> None:
        """Define the fleet.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Network.
            instance_type: Type of every node, such as `p5.48xlarge`.
            options: Those of `GpuFleetProps`; all but the size may be left out.

        Raises:
            ConfigError: GPU-FLT-001 to -007, GPU-ALM-001, GPU-MNT-001 to -003; faults of type, capacity, interfaces,
                MIG, image.
        """
        super().__init__(scope, construct_id)
        check_keywords(self, options, GpuFleetProps)
        options = with_ray(self, options)
        fleet = _resolved or resolve_fleet(
            self,
            vpc=vpc,
            instance_type=instance_type,
            options=options,
            image=options.get("image"),
            drain_timeout=options.get("drain_timeout"),
        )
        report(self, list(fleet.plan.findings))
        plan, fleet = fleet.plan, _with_block_group(fleet)
        alarms = options.get("alarms", AlarmSettings())
        self.plan: FleetPlan = plan
        self._subnets = fleet.subnets
        self.fabric: ec2.ISecurityGroup | None = join_fabric(self, plan, vpc=vpc, fabric=options.get("fabric"))
        self.placement_group: ec2.IPlacementGroup | None = fleet.placement_group
        if plan.new_placement is not None:
            self.placement_group = ClusterPlacementGroup(self, "Placement", strategy=plan.new_placement)
        volume = options.get("root_volume")
        if volume is not None and volume.encryption_key is not None:
            allow_auto_scaling(volume.encryption_key)
        log_key = options.get("log_encryption_key")
        self.log_group: logs.ILogGroup = node_log_group(
            self, options.get("log_retention", logs.RetentionDays.ONE_MONTH), log_key
        )
        evidence = evidence_of(self, options)
        request = node_request(
            options,
            log_group_name=self.log_group.log_group_name,
            evidence_uri=None if evidence is None else evidence.uri,
            inspection_seconds=inspection_seconds(self, plan, alarms),
            metadata_users=options.get("metadata_users", ()),
        )
        user_data, asset = write_node(self, plan, request)
        self.node_asset: NodeAsset = asset
        self.role: iam.IRole = options.get("role") or NodeRole(self, "Role", policies=[asset.read_policy])
        template = FleetLaunchTemplate(
            self,
            "LaunchTemplate",
            instance_type=plan.instance_type.name,
            fabric=self.fabric,
            security_groups=options.get("security_groups") or host_groups(self, plan, vpc=vpc, fabric=self.fabric),
            placement_group=self.placement_group,
            root_volume=volume,
            associate_public_ip_address=fleet.is_public,
            name_tag=path_of(self),
            user_data=user_data,
            not_secret=options.get("not_secret", ()),
            _resolved=fleet,
        )
        self.launch_template: GpuLaunchTemplate = template
        self._admit_health_checks(options.get("watch"))
        join_stores(self, plan, options.get("mounts") or {}, template.security_groups[0], subnets=fleet.subnets)
        launch_template, values = template.define_with(lambda: self._defined.resource(TEMPLATE))
        parts = FleetParts(
            path=path_of(self),
            partition=partition_of(stack_of(self)),
            plan=plan,
            terms=fleet.capacity.terms,
            group=self._group(
                options.get("update_policy", UpdatePolicy.NEVER_REPLACE),
                options.get("target_groups", ()),
                launch_alarm=None if alarms is None else launch_alarm_name(path_of(self)),
                terms=fleet.capacity.terms,
            ),
            launch_template=launch_template,
            role_name=self.role.role_name,
            logging=logging_statements(self, self.log_group, runs_jobs=plan.runs_jobs),
            log_key_arn=None if log_key is None else log_key.key_arn,
            evidence=[] if evidence is None else evidence.statements(),
            alarms=alarms,
        )
        resources = fleet_resources(self, parts)
        defined = self._resources = define_fleet(self, parts, resources, values)
        if (updates := update_policy(parts.group)) is not None:
            self.cfn_auto_scaling_group.cfn_options.update_policy = updates
        self._read_node_anew()
        accept_records(defined.scope, self.log_group, evidence, runs_jobs=plan.runs_jobs)
        self._wait_for_prerequisites(options.get("role"))
        self.alarms: FleetAlarms | None = None
        if alarms is not None:
            self.alarms = FleetAlarms(alarm_names(resources), lambda: defined)

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
        return ImportedGpuFleet(scope, construct_id, fleet_name=fleet_name, role=role, security_groups=security_groups)

    @cached_property
    def cfn_auto_scaling_group(self) -> autoscaling.CfnAutoScalingGroup:
        """The Auto Scaling group, as an escape hatch."""
        group: autoscaling.CfnAutoScalingGroup = self._defined.resource(GROUP)
        return group

    def grant_read(self, bucket: s3.IBucket, *, prefix: str = "") -> iam.Grant:
        return self._before_nodes(super().grant_read(bucket, prefix=prefix))

    def grant_read_write(self, bucket: s3.IBucket, *, prefix: str = "") -> iam.Grant:
        return self._before_nodes(super().grant_read_write(bucket, prefix=prefix))

    def grant_run_jobs(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let someone run, follow and stop jobs on this fleet by the command `gpu-clusters run`, and no more.

        Their jobs run as the user `gpu-job` of the nodes, without a right in AWS unless `metadata_users` has that user.

        Args:
            grantee: A role, a user or a group.

        Raises:
            ValueError: If the nodes run model servers: they take no jobs.
        """
        if not self.plan.runs_jobs:
            raise ValueError(f"{path_of(self)} runs model servers: its nodes take no jobs")
        statements = user_statements(
            self,
            document_name=str(self._defined.resource(JOBS).ref),
            parameter_name=str(self._defined.resource(JOB_REQUEST).ref),
            group_name=self.fleet_name,
            log_group_name=self.log_group.log_group_name,
        )
        return grant_statements(grantee, statements)

    def _before_nodes(self, grant: iam.Grant) -> iam.Grant:
        grant_before(self.role, self.cfn_auto_scaling_group)
        return grant

    @property
    def _defined(self) -> DefinedResources:
        assert self._resources is not None  # noqa: S101 - the constructor defines them
        return self._resources

    @cached_property
    def fleet_name(self) -> str:
        """Name of the Auto Scaling group, known at deployment."""
        return str(self.cfn_auto_scaling_group.ref)

    @property
    def fleet_path(self) -> str:
        """Path of the fleet in the app: its name in the metrics of its nodes."""
        return path_of(self)

    def _group(
        self,
        update_policy: UpdatePolicy,
        target_groups: Sequence[elbv2.ITargetGroup],
        *,
        launch_alarm: Mapping[str, Any] | None,
        terms: CapacityTerms,
    ) -> GroupParts:
        return GroupParts(
            name_tag=path_of(self),
            launch_template_id=ref(TEMPLATE),
            launch_template_version=att(TEMPLATE, "LatestVersionNumber"),
            subnet_ids=[id_of(subnet) for subnet in self._subnets],
            minimum=self.plan.minimum,
            maximum=self.plan.maximum,
            # A group that scales has room for one more until it has all nodes that are reserved.
            full_size=self.plan.fewest if self.plan.keeps_size else self.plan.maximum,
            launch_alarm=launch_alarm,
            refuses_force_delete=self.plan.terms.kind.is_reserved,
            terminates_before_launch=self.plan.decision.terminates_before_launch,
            ready_timeout_seconds=self.plan.ready_timeout_seconds,
            drain_timeout_seconds=self.plan.drain_timeout_seconds,
            update_policy=update_policy,
            target_group_arns=[group.target_group_arn for group in target_groups],
            segment=[one.value for one in terms.segment],
            reservation_group_arn=terms.reservation_group_arn,
            own_tags=job_tags(
                document_name=ref(JOBS),
                parameter_name=ref(JOB_REQUEST),
                log_group_name=self.log_group.log_group_name,
            )
            if self.plan.runs_jobs
            else {},
        )

    def _admit_health_checks(self, watch: NodeWatch | None) -> None:
        """Admit the clients of the nodes' `/healthz` that are not on the node itself."""
        if watch is None:
            return
        for one in watch.health_from:
            self.connections.allow_from(
                ec2.Peer.ipv4(one), ec2.Port.tcp(watch.health_port), "health checks of the nodes"
            )

    def _wait_for_prerequisites(self, role: iam.IRole | None) -> None:
        """Start no node before its route out of the subnet, and the access of a given role to its software."""
        ways_out = [way_out for subnet in self._subnets if (way_out := new_egress_dependency(subnet)) is not None]
        if ways_out:
            self.cfn_auto_scaling_group.node.add_dependency(*ways_out)
        if role is not None:
            self.node_asset.read_policy.attach_to_role(role)
            self.cfn_auto_scaling_group.node.add_dependency(self.node_asset.read_policy)

    def _main_resource(self) -> IConstruct | None:
        return None if self._resources is None else self.cfn_auto_scaling_group


def _with_block_group(fleet: ResolvedFleet) -> ResolvedFleet:
    """Let a fleet with several blocks launch into the resource group that it makes of them."""
    terms = fleet.capacity.terms
    if not terms.blocks:
        return fleet
    terms = replace(terms, reservation_group_arn=att(BLOCKS, "Arn"))
    return replace(fleet, capacity=replace(fleet.capacity, terms=terms))
