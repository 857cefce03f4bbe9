"""A compute environment of AWS Batch whose nodes run multi-node jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import aws_cdk as cdk
from aws_cdk import aws_batch as batch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import named_resource
from cdk_gpu_clusters._cdk import ClusterConstruct, path_of, report
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.capacity.placement_group import ClusterPlacementGroup, name_of
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as catalogue_type
from cdk_gpu_clusters.compute.alarms import NodeAlarms
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.compute.fleet_mounts import join_stores
from cdk_gpu_clusters.compute.fleet_network import egress_dependency, id_of, join_fabric
from cdk_gpu_clusters.compute.fleet_props import FleetProps, check_keywords
from cdk_gpu_clusters.compute.fleet_request import ResolvedFleet, node_request, resolve_fleet
from cdk_gpu_clusters.compute.launch_template import GpuLaunchTemplate
from cdk_gpu_clusters.compute.node_asset import NodeAsset, write_node
from cdk_gpu_clusters.compute.node_image import NodeImage
from cdk_gpu_clusters.compute.node_records import evidence_of, node_log_group
from cdk_gpu_clusters.compute.node_role import NodeRole, allow_node
from cdk_gpu_clusters.compute.root_volume import RootVolume, allow_auto_scaling
from cdk_gpu_clusters.fleet.compute_environment import (
    ComputeEnvironmentPlan,
    ComputeEnvironmentRequest,
    plan_compute_environment,
)
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.fleet.profile import BATCH
from cdk_gpu_clusters.network.efa_security_group import EfaSecurityGroup
from cdk_gpu_clusters.node.storage import SCRATCH_MOUNT_POINT
from cdk_gpu_clusters.orchestration.batch.node_role import (
    AGENT_RIGHTS,
    JOB_STREAMS,
    agent_places,
    agent_statements,
    job_streams,
    logging_statement,
)
from cdk_gpu_clusters.orchestration.service_node_group import ServiceNodeGroup
from cdk_gpu_clusters.rules.batch import BatchAllocationStrategy
from cdk_gpu_clusters.rules.fleet import AlarmSettings
from cdk_gpu_clusters.rules.interfaces import Orchestrator

# The custom resource by which `ec2.Vpc` removes the rules of its default security group (aws-cdk-lib 2.275.0, aws-ec2,
# restrictDefaultSecurityGroup).
_EMPTIES_DEFAULT_GROUP = "RestrictDefaultSecurityGroupCustomResource"
# The longest time that UpdatePolicy takes (botocore 1.44.5, batch service model, UpdatePolicy).
_LONGEST_UPDATE_MINUTES = 7_200


class BatchComputeEnvironmentProps(FleetProps, total=False):
    """What only `BatchComputeEnvironment` takes, over and above `FleetProps`.

    Attributes:
        image: Image, which must have the ECS agent; the newest ECS-optimized one of AWS if left out, as `gpu-clusters
            pin-image` wrote it down, else the newest.
        allocation_strategy: How Batch adds nodes. BEST_FIT on a Capacity Block, and BEST_FIT_PROGRESSIVE elsewhere, if
            left out.
        job_timeout_on_update: How long jobs go on when an update replaces their nodes, 1 minute to 5 days; 5 days if
            left out.
        scale_down_delay: How long an idle node is kept, 20 minutes to 7 days; as Batch decides if left out.
    """

    image: NodeImage | None
    allocation_strategy: BatchAllocationStrategy | None
    job_timeout_on_update: cdk.Duration | None
    scale_down_delay: cdk.Duration | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nodes:
    """What jobs need to know of the nodes of an environment."""

    arn: str
    instance_type: InstanceType
    efa_count: int
    most_nodes: int | None = None
    mount_points: Sequence[str] = ()
    log_group: logs.ILogGroup | None = None
    has_software: bool = False


class IBatchComputeEnvironment(ClusterConstruct):
    """A compute environment of AWS Batch: a `BatchComputeEnvironment`, or one that is defined elsewhere.

    Example:
        >>> from cdk_gpu_clusters import BatchComputeEnvironment
        >>> existing = BatchComputeEnvironment.from_batch_compute_environment_attributes(
        ...     stack, "ExistingBatch",
        ...     compute_environment_arn="arn:aws:batch:us-west-2:123456789012:compute-environment/train",
        ...     instance_type="p5.48xlarge", efa_count=32,
        ... )
        >>> existing.efa_count
        32
    """

    _nodes: _Nodes

    @property
    def compute_environment_arn(self) -> str:
        """ARN."""
        return self._nodes.arn

    @property
    def instance_type(self) -> InstanceType:
        """Type of every node."""
        return self._nodes.instance_type

    @property
    def efa_count(self) -> int:
        """EFA devices of a node."""
        return self._nodes.efa_count

    @property
    def most_nodes(self) -> int | None:
        """The most nodes; None if unknown."""
        return self._nodes.most_nodes

    @property
    def mount_points(self) -> Sequence[str]:
        """Where the nodes have file systems, which their jobs see at the same paths."""
        return self._nodes.mount_points

    @property
    def job_log_group(self) -> logs.ILogGroup | None:
        """Log group of the output of jobs; None for that of AWS Batch."""
        return self._nodes.log_group

    @property
    def has_node_software(self) -> bool:
        """Whether the nodes have the library's software, and their jobs `gpu-peers`."""
        return self._nodes.has_software


class _ImportedEnvironment(IBatchComputeEnvironment):
    def __init__(self, scope: Construct, construct_id: str, nodes: _Nodes) -> None:
        super().__init__(scope, construct_id)
        self._nodes = nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What the resource is written from."""

    plan: FleetPlan
    environment: ComputeEnvironmentPlan
    template: GpuLaunchTemplate
    profile_arn: str
    subnet_ids: Sequence[str]
    placement_group: ec2.IPlacementGroup | None
    update_minutes: int
    scale_down_minutes: int | None = None


class BatchComputeEnvironment(ServiceNodeGroup, IBatchComputeEnvironment):
    """Nodes of one type for multi-node jobs of AWS Batch: one managed compute environment on a `GpuLaunchTemplate`.

    What a `GpuFleet` is on plain EC2, with the same node software and rules. Makes the launch template, the compute
    environment, a role with its instance profile, a log group, and, if none is given, a security group and a cluster
    placement group. Jobs are defined by a `BatchMultiNodeJob`, and come by a `BatchJobQueue`.

    * A node that fails its boot checks never starts the ECS agent. It powers itself off, and Batch launches another.
    * `min_node_count=0` lets Batch launch nodes for jobs, and end them. On a reservation or Capacity Block it always
      does, also with a fixed `node_count`.
    * On a Capacity Block nothing but the block decides how many nodes there are: `MaxvCpus` are exactly its own, and
      the strategy is BEST_FIT. Containers get SIGTERM before the end. Another block, template or image replaces the
      environment: CloudFormation makes the new one, moves the queue, and deletes the old one.
    * Elsewhere an update replaces the nodes and keeps the environment. Jobs that run go on for `job_timeout_on_update`.
    * The environment itself has no tags, since a changed tag would replace it. Nodes get theirs from the launch
      template.
    * Each container of a multi-node job has a network interface of its own: one more address per node, and a free place
      on network card 0. It is in the default security group of the VPC, since an environment whose launch template has
      network interfaces names no groups. So that group must let its members reach each other, as EC2 makes it. EFA
      uses the interfaces of the nodes.
    * Containers do not reach the instance metadata service: give jobs a role.
    * Refused: Spot, on which Batch runs no multi-node jobs, and MIG, which the ECS agent does not know.

    The user guide calls processes that others start on nodes of Batch unsupported. The library's checks and its
    watchdog are such processes; none of them changes what Batch made.

    Sources: AWS Batch user guide; CloudFormation registry schema of AWS::Batch::ComputeEnvironment (2026-10-20);
    awslabs/awsome-distributed-ai @ 95b939c, 1.architectures/3.aws-batch.

    Example:
        >>> nodes = BatchComputeEnvironment(
        ...     stack, "BatchTrainers", vpc=vpc, vpc_subnets=ec2.SubnetSelection(subnets=[gpu_subnet]),
        ...     instance_type="p5.48xlarge", node_count=16,
        ...     capacity=Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z"),
        ... )
        >>> nodes.cfn_compute_environment.replace_compute_environment
        True

    Attributes:
        plan: What was decided about the nodes as about every fleet: type, interfaces, placement, size.
        environment_plan: What was decided about the environment: strategy, vCPUs, updates.
        launch_template: The launch template construct.
        fabric: Security group of the nodes, in which they exchange EFA traffic. Containers are in the default group.
        placement_group: Placement group of the nodes, None if the capacity forbids or needs none.
        role: Role of the nodes. Jobs have their own.
        log_group: Boot events of the nodes, one stream per instance, and output of jobs, with the prefix `jobs`.
        node_asset: Software of the nodes in S3.
        alarms: The alarms, whose recipients `alarms.add_topic` sets; None if there are none.
        cfn_compute_environment: The compute environment, as an escape hatch.
        cfn_instance_profile: The instance profile, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        instance_type: str | ec2.InstanceType,
        **options: Unpack[BatchComputeEnvironmentProps],
    ) -> None:
        """Define the compute environment.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Network of the nodes.
            instance_type: Type of every node, such as `p5.48xlarge`.
            options: Those of `BatchComputeEnvironmentProps`; all but the size may be left out.

        Raises:
            ConfigError: GPU-FLT-001 to -005, GPU-BAT-009 to -015, -020 to -022 and -024; faults of type, capacity,
                interfaces and image.
        """
        super().__init__(scope, construct_id)
        check_keywords(self, options, BatchComputeEnvironmentProps)
        fleet = resolve_fleet(
            self, profile=BATCH, vpc=vpc, instance_type=instance_type, options=options, image=options.get("image")
        )
        plan = fleet.plan
        if plan.type_or_none is None or plan.interfaces_or_none is None:  # nothing else can be decided
            report(self, list(plan.findings))
        environment = plan_compute_environment(
            plan,
            ComputeEnvironmentRequest(
                strategy=options.get("allocation_strategy"),
                keeps_nodes=options.get("update_policy") is UpdatePolicy.NEVER_REPLACE,
                empties_default_group=vpc.node.try_find_child(_EMPTIES_DEFAULT_GROUP) is not None,
            ),
        )
        report(self, [*plan.findings, *environment.findings])
        self.plan: FleetPlan = plan
        self.environment_plan: ComputeEnvironmentPlan = environment
        self.fabric: ec2.ISecurityGroup = join_fabric(
            self, plan, vpc=vpc, fabric=options.get("fabric")
        ) or EfaSecurityGroup(self, "Fabric", vpc=vpc)
        self.placement_group: ec2.IPlacementGroup | None = fleet.placement_group
        if plan.new_placement:
            self.placement_group = ClusterPlacementGroup(self, "Placement", strategy=plan.new_placement)
        permissions = self._define_nodes(fleet, list(options.get("security_groups", ())), options)
        join_stores(
            self, plan, options.get("mounts") or {}, self.launch_template.security_groups[0], subnets=fleet.subnets
        )
        self.cfn_compute_environment: batch.CfnComputeEnvironment = _resource(
            self,
            _Made(
                plan=plan,
                environment=environment,
                template=self.launch_template,
                profile_arn=self.cfn_instance_profile.attr_arn,
                subnet_ids=[id_of(subnet) for subnet in fleet.subnets],
                placement_group=self.placement_group,
                update_minutes=_minutes(options.get("job_timeout_on_update")) or _LONGEST_UPDATE_MINUTES,
                scale_down_minutes=_minutes(options.get("scale_down_delay")),
            ),
        )
        self.cfn_compute_environment.node.add_dependency(
            permissions, *(egress_dependency(subnet) for subnet in fleet.subnets)
        )
        self.node.default_child = self.cfn_compute_environment
        self.alarms: NodeAlarms | None = self._raise_alarms(plan, options.get("alarms", AlarmSettings()))
        self._nodes = _Nodes(
            arn=str(self.cfn_compute_environment.ref),
            instance_type=plan.instance_type,
            efa_count=plan.interfaces.efa_count,
            most_nodes=plan.maximum,
            mount_points=(
                *(options.get("mounts") or {}),
                *([SCRATCH_MOUNT_POINT] if plan.local_disks and options.get("scratch", True) else []),
            ),
            log_group=self.log_group,
            has_software=True,
        )

    @staticmethod
    def from_batch_compute_environment_attributes(
        scope: Construct,
        construct_id: str,
        *,
        compute_environment_arn: str,
        instance_type: str,
        efa_count: int = 0,
        mount_points: Sequence[str] = (),
    ) -> IBatchComputeEnvironment:
        """Refer to a compute environment that is defined elsewhere, for queues and jobs of this app.

        Its nodes are not known to have the library's software: jobs get no `gpu-peers`.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            compute_environment_arn: Its ARN.
            instance_type: Type of its nodes.
            efa_count: EFA devices of a node; none if left out.
            mount_points: Where the nodes have file systems that jobs need, such as `/fsx`.

        Raises:
            ConfigError: If the instance type is not known.
        """
        nodes = _Nodes(
            arn=compute_environment_arn,
            instance_type=catalogue_type(instance_type),
            efa_count=efa_count,
            mount_points=tuple(mount_points),
        )
        return _ImportedEnvironment(scope, construct_id, nodes)

    @property
    def fleet_name(self) -> str:
        """Name of the environment, known at deployment."""
        return cdk.Fn.select(1, cdk.Fn.split("/", self.compute_environment_arn))

    @property
    def _instance_tags(self) -> Mapping[str, str]:
        # Of the launch template: Batch merges its tags with its own (AWS Batch user guide, launch templates).
        return {"Name": path_of(self)}

    def _define_nodes(
        self, fleet: ResolvedFleet, groups: Sequence[ec2.ISecurityGroup], options: BatchComputeEnvironmentProps
    ) -> iam.ManagedPolicy:
        """Define log group, software, role and launch template; return the permissions that a first boot needs."""
        evidence = evidence_of(self, options)
        self.log_group: logs.ILogGroup = node_log_group(
            self, options.get("log_retention", logs.RetentionDays.ONE_MONTH), options.get("log_encryption_key")
        )
        node = node_request(
            options,
            log_group_name=self.log_group.log_group_name,
            evidence_uri=None if evidence is None else evidence.uri,
        )
        user_data, asset = write_node(self, fleet.plan, node)
        self.node_asset: NodeAsset = asset
        self.role: iam.IRole = options.get("role") or NodeRole(self, "Role")
        self.cfn_instance_profile: iam.CfnInstanceProfile = iam.CfnInstanceProfile(
            self, "InstanceProfile", roles=[self.role.role_name]
        )
        streams = job_streams(self, self.log_group)
        permissions = allow_node(
            self,
            self.role,
            log_group=self.log_group,
            evidence=evidence,
            statements=[logging_statement(streams), *agent_statements(self), *asset.read_statements],
        )
        JOB_STREAMS.at(permissions, named_resource(self, streams))
        AGENT_RIGHTS.at(permissions, "Resource::*", *(named_resource(self, arn) for arn in agent_places(self)))
        root_volume = options.get("root_volume") or RootVolume(size_gib=BATCH.root_volume_gib)
        if root_volume.encryption_key:
            allow_auto_scaling(root_volume.encryption_key)
        self.launch_template: GpuLaunchTemplate = GpuLaunchTemplate(
            self,
            "LaunchTemplate",
            instance_type=fleet.plan.instance_type.name,
            orchestrator=Orchestrator.BATCH,
            fabric=self.fabric,
            security_groups=groups,
            root_volume=root_volume,
            associate_public_ip_address=fleet.is_public,
            name_tag=path_of(self),
            user_data=user_data,
            not_secret=options.get("not_secret", ()),
            # Batch takes the placement group of the environment.
            _resolved=replace(fleet, placement_group=None),
        )
        return permissions


def _minutes(given: cdk.Duration | None) -> int | None:
    return None if given is None else int(given.to_minutes())


def _resource(scope: Construct, made: _Made) -> batch.CfnComputeEnvironment:
    """Define the compute environment, as the resource that CloudFormation takes; ids may be tokens.

    No service role: Batch updates instances only with its service-linked role. No `DesiredvCpus`: Batch sets them.
    """
    optional: dict[str, Any] = {
        "placementGroup": None if made.placement_group is None else name_of(made.placement_group),
        "scalingPolicy": None
        if made.scale_down_minutes is None
        else {"minScaleDownDelayMinutes": made.scale_down_minutes},
    }
    # Only the new template decides whether an update replaces. So an environment that is no longer replaced, such as
    # one that leaves a block, is another resource. Dictionaries in camel case, which CDK passes on as given.
    environment = batch.CfnComputeEnvironment(
        scope,
        "Replaced" if made.environment.replaces else "Resource",
        type="MANAGED",
        state="ENABLED",
        replace_compute_environment=made.environment.replaces,
        update_policy={"jobExecutionTimeoutMinutes": made.update_minutes, "terminateJobsOnUpdate": False},
        compute_resources={
            "type": "EC2",
            "allocationStrategy": made.environment.strategy.value,
            "minvCpus": made.environment.minimum_vcpus,
            "maxvCpus": made.environment.maximum_vcpus,
            "instanceTypes": [made.plan.instance_type.name],
            "instanceRole": made.profile_arn,
            "subnets": list(made.subnet_ids),
            # No security groups: the interfaces of the launch template have them, and Batch refuses both (GPU-BAT-023).
            "launchTemplate": {
                "launchTemplateId": made.template.launch_template_id,
                "version": made.template.latest_version_number,
            },
            # The image is the template's, and an update takes it (CloudFormation template reference).
            "updateToLatestImageVersion": True,
            **{key: value for key, value in optional.items() if value is not None},
        },
    )
    # A changed tag would replace it (registry schema, createOnlyProperties); the tags of nodes are the template's.
    environment.add_property_deletion_override("Tags")
    return environment
