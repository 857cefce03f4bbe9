"""A group of GPU nodes in a Slurm cluster of AWS PCS."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, Unpack

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_pcs as pcs
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
from cdk_gpu_clusters.capacity.capacity_reservation import reservation_pool
from cdk_gpu_clusters.capacity.placement_group import ClusterPlacementGroup
from cdk_gpu_clusters.compute.alarms import NodeAlarms
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.compute.fleet_mounts import join_stores
from cdk_gpu_clusters.compute.fleet_network import egress_dependency, host_groups, id_of, join_fabric
from cdk_gpu_clusters.compute.fleet_props import FleetProps, check_keywords
from cdk_gpu_clusters.compute.fleet_request import ResolvedFleet, node_request, resolve_fleet
from cdk_gpu_clusters.compute.launch_template import GpuLaunchTemplate
from cdk_gpu_clusters.compute.node_asset import NodeAsset, write_node
from cdk_gpu_clusters.compute.node_image import NodeImage
from cdk_gpu_clusters.compute.node_records import evidence_of, node_log_group
from cdk_gpu_clusters.compute.node_user_data import check_pcs_parts
from cdk_gpu_clusters.compute.reconcile import (
    BEFORE_GROUP,
    DEPLOYED,
)
from cdk_gpu_clusters.compute.root_volume import RootVolume, allow_pcs
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.compute_node_group import (
    ComputeNodeGroupPlan,
    ComputeNodeGroupRequest,
    PurchaseOption,
    plan_compute_node_group,
)
from cdk_gpu_clusters.fleet.node import NodeRequest, node_settings
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.fleet.profile import PCS
from cdk_gpu_clusters.node.lifecycle_scripts import LifecycleScript, pcs_lifecycle_scripts
from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.node.users import UserDirectory, UserList, check_directory, check_users, users_file
from cdk_gpu_clusters.orchestration.pcs.node_role import PcsNodeRole, allow_pcs_nodes, instance_profile
from cdk_gpu_clusters.orchestration.pcs.reconcile import compute_node_group_calls, sized_windows
from cdk_gpu_clusters.orchestration.service_node_group import ServiceNodeGroup
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters.rules.fleet import AlarmSettings
from cdk_gpu_clusters.rules.gres import GresMode
from cdk_gpu_clusters.rules.interfaces import Orchestrator

# EC2 user guide, "Use allocation strategies": the one that EC2 recommends for most.
_SPOT_STRATEGY = "price-capacity-optimized"
# What a boot has fetched stays on the node: a reboot needs no network.
_SCRIPT_CACHING = "CACHE_ONCE"

_RECONCILE = AcceptedFinding(
    cause="`PcsNodeGroup`: policy of the state machine that sizes the group to its capacity",
    reason="Log delivery, tracing, metrics and descriptions have no resource level. AWS PCS makes the id of the group, "
    "and it launches instances in the name of the caller, which a condition allows to AWS services alone.",
    aws_solutions=("IAM5",),
)


class PcsNodeGroupProps(FleetProps, total=False):
    """What only `PcsNodeGroup` takes, over and above `FleetProps`.

    Attributes:
        node_group_name: Name in Slurm, 3 to 25 letters, digits and hyphens; nodes are called `<name>-<number>`. It
            follows from the construct's id and the instance type if left out. A change replaces the group. Give another
            name together with another instance type: PCS makes the new group before it deletes the old one.
        image: Image, which must be ready for AWS PCS; AWS's PCS-ready Deep Learning AMI (Ubuntu 24.04) if left out, as
            `gpu-clusters pin-image` wrote it down, else the newest. A deployment with another image replaces every node
            when its jobs have ended.
        metadata_users: Users of the nodes, by name or number, who reach the instance metadata service beside root, and
            with it the role of their node. `["*"]` for all; root alone if left out.
        metadata_hop_limit: Hops that an answer of the metadata service may take; 1 if left out.
        slurm_settings: Custom settings of the nodes, such as `{"RealMemory": "2000000"}`; they win over those that the
            library sets (`Features`, `Weight`, `Gres`).
        features: Further features of the nodes, for `sbatch --constraint`. They always have their instance type, `efa`
            and `gpu` or `neuron`, as far as each applies.
        weight: Slurm fills nodes of the least weight first; Slurm's own default of 1 if left out.
        gres_mode: How Slurm learns of MIG slices: by autodetection if left out.
        scale_down_idle_time: How long an idle node of a group that scales is kept; the cluster's if left out. From
            Slurm 25.11 on.
        lifecycle_actions: Whether AWS PCS runs the library's scripts on each node, and so replaces nodes that fail
            their boot; the agent on the image must be 1.5.0-1 or later. True if left out. Without them such a node
            stays, and takes no jobs.
        users: People who work on the nodes, from `read_users(...)`; none if left out. Give the login nodes and all node
            groups the same list. A changed list replaces every node when its jobs have ended.
        directory: LDAP directory from which the nodes take users; none if left out. The image must have SSSD. The role
            of the nodes gets the right to read the directory's password.
        lifecycle_scripts: Scripts of your own that AWS PCS runs on each node, after those of the library. A changed
            script replaces every node when its jobs have ended.
    """

    node_group_name: str | None
    image: NodeImage | None
    metadata_users: Sequence[str]
    metadata_hop_limit: int
    slurm_settings: Mapping[str, str] | None
    features: Sequence[str]
    weight: int | None
    gres_mode: GresMode
    scale_down_idle_time: cdk.Duration | None
    users: UserList | None
    directory: UserDirectory | None
    lifecycle_actions: bool
    lifecycle_scripts: Sequence[LifecycleScript]


class SlurmCluster(Protocol):
    """What a node group needs of its cluster. An `IPcsCluster` has it."""

    @property
    def cluster_id(self) -> str: ...
    @property
    def cluster_arn(self) -> str: ...
    @property
    def slurm_version(self) -> str: ...
    @property
    def security_groups(self) -> Sequence[ec2.ISecurityGroup]: ...
    @property
    def vpc(self) -> ec2.IVpc: ...
    def check_programs(self) -> list[Finding]: ...
    def check_nodes(self, node_count: int) -> list[Finding]: ...


class PcsNodeGroup(ServiceNodeGroup):
    """Nodes of one type in a cluster of AWS PCS: one compute node group on a `GpuLaunchTemplate`.

    What a `GpuFleet` is on plain EC2, with the same node software and rules. Makes the launch template, the node group,
    a role with its instance profile, a log group, and, if none is given, an EFA security group and a cluster placement
    group; nodes without EFA get a security group of their own, which file systems admit. For capacity that is reserved
    or ends it also makes the state machine that sizes the group. Jobs come by a queue: `cluster.add_queue(...)`.

    * A node that fails its boot checks never starts slurmd, and PCS terminates it.
    * A fixed `node_count` is a static group. `min_node_count=0` and `max_node_count` are one that scales with its jobs.
    * On a Capacity Block the group is static while the block runs, whatever its bounds. Its nodes drain themselves in
      Slurm before the end. Jobs in the queue wait for the next block: edit `capacity`, and deploy.
    * An On-Demand Capacity Reservation is put into a resource group of its own, by which PCS takes it. Nodes beyond the
      reservation are on demand. For a reservation of another account give the ARN of a group.
    * A deployment that changes launch template, image or scripts replaces each node after its jobs have ended. Jobs in
      the queue wait less for it if you deploy while few run.
    * Another instance type, name or cluster replaces the group. Everything else changes in place.
    * On UltraServers AWS PCS itself chooses Slurm's block topology; the prolog sets up IMEX for each job.

    Sources: AWS PCS user guide; CloudFormation registry schema of AWS::PCS::ComputeNodeGroup (2026-10-20).

    Example:
        >>> cluster = PcsCluster.from_pcs_cluster_attributes(
        ...     stack, "Slurm", vpc=vpc, cluster_id="pcs_abc123def4", slurm_version="26.05",
        ...     security_groups=[existing_group],
        ... )
        >>> trainers = PcsNodeGroup(
        ...     stack, "PcsTrainers", cluster=cluster, vpc_subnets=ec2.SubnetSelection(subnets=[gpu_subnet]),
        ...     instance_type="p5.48xlarge", node_count=16,
        ...     capacity=Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z"),
        ... )
        >>> queue = cluster.add_queue("train", node_groups=[trainers])

    Attributes:
        plan: What was decided about the group as about every fleet: type, interfaces, placement, size.
        launch_template: The launch template construct.
        fabric: Security group in which the nodes exchange EFA traffic, None without EFA.
        placement_group: Placement group of the nodes, None if the capacity forbids or needs none.
        role: Role of the nodes.
        log_group: Boot events of the nodes, one stream per instance.
        node_asset: Software of the nodes in S3.
        node_group_name: Name of the group in Slurm.
        slurm_settings: Custom settings of the nodes in `slurm.conf`.
        alarms: The alarms, whose recipients `alarms.add_topic` sets; None if there are none.
        cfn_compute_node_group: The compute node group, as an escape hatch.
        cfn_instance_profile: The instance profile, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: SlurmCluster,
        instance_type: str | ec2.InstanceType,
        **options: Unpack[PcsNodeGroupProps],
    ) -> None:
        """Define the node group.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster that the nodes join: a `PcsCluster`, or an imported one.
            instance_type: Type of every node, such as `p5.48xlarge`. A change replaces the group.
            options: Those of `PcsNodeGroupProps`; all but the size may be left out.

        Raises:
            ConfigError: GPU-FLT-001 to -005, GPU-PCS-002, -016, -018 to -025, -030 to -036 and -060 to -062,
                GPU-GRES-001 to -005, GPU-MNT-001 to -003, GPU-USR-001 to -004;
                faults of type, capacity, interfaces, image and MIG.
        """
        super().__init__(scope, construct_id)
        check_keywords(self, options, PcsNodeGroupProps)
        options.setdefault("root_volume", RootVolume(size_gib=PCS.root_volume_gib))
        fleet = resolve_fleet(
            self,
            profile=PCS,
            vpc=cluster.vpc,
            instance_type=instance_type,
            options=options,
            image=options.get("image"),
        )
        plan, fleet = fleet.plan, _with_reservation_group(self, fleet)
        if plan.type_or_none is None or plan.interfaces_or_none is None:  # nothing else can be decided
            report(self, list(plan.findings))
        log_key, evidence = options.get("log_encryption_key"), evidence_of(self, options)
        self.log_group: logs.ILogGroup = node_log_group(
            self, options.get("log_retention", logs.RetentionDays.ONE_MONTH), log_key
        )
        version = resolved_or_none(cluster.slurm_version)
        users, directory = options.get("users"), options.get("directory")
        node = node_request(
            options,
            log_group_name=self.log_group.log_group_name,
            evidence_uri=None if evidence is None else evidence.uri,
            slurm_version=cluster.slurm_version,
            metadata_users=_numbers_of(options.get("metadata_users", ()), users),
        )
        node = replace(
            node,
            files=(*node.files, *([] if users is None else [users_file(users)])),
            directory=directory,
        )
        group = self._plan(construct_id, plan, node, version, options)
        report(
            self,
            [
                *plan.findings,
                *group.findings,
                *cluster.check_nodes(group.maximum),
                *check_pcs_parts(options.get("user_data_parts", ())),
                *([] if users is None else check_users(users)),
                *([] if directory is None else check_directory(directory)),
            ],
        )
        self.plan: FleetPlan = plan
        self.node_group_name: str = group.name
        self.slurm_settings: Mapping[str, str] = group.slurm_settings
        self.fabric: ec2.ISecurityGroup | None = join_fabric(self, plan, vpc=cluster.vpc, fabric=options.get("fabric"))
        self.placement_group: ec2.IPlacementGroup | None = fleet.placement_group
        if plan.new_placement:
            self.placement_group = ClusterPlacementGroup(self, "Placement", strategy=plan.new_placement)
        user_data, asset = write_node(self, plan, node)
        self.node_asset: NodeAsset = asset
        self.role: iam.IRole = options.get("role") or PcsNodeRole(self, "Role")
        self.cfn_instance_profile: iam.CfnInstanceProfile = instance_profile(self, self.role)
        scripts = _script_assets(self, group.request.scripts)
        permissions = allow_pcs_nodes(
            self,
            self.role,
            cluster_arn=cluster.cluster_arn,
            assets=[asset, *scripts.values()],
            log_group=self.log_group,
            evidence=evidence,
            secret=None if directory is None else directory.password_secret,
        )
        self.launch_template: GpuLaunchTemplate = self._template(cluster, fleet, user_data, options)
        join_stores(
            self, plan, options.get("mounts") or {}, self.launch_template.security_groups[0], subnets=fleet.subnets
        )
        self.cfn_compute_node_group: pcs.CfnComputeNodeGroup = compute_nodes(
            self,
            cluster_id=cluster.cluster_id,
            profile_arn=self.cfn_instance_profile.attr_arn,
            subnet_ids=[id_of(subnet) for subnet in fleet.subnets],
            template=self.launch_template,
            plan=plan,
            group=group,
            scripts=scripts,
            needs=[permissions, *(egress_dependency(subnet) for subnet in fleet.subnets)],
        )
        settings = options.get("alarms", AlarmSettings())
        group_arns = f"{cluster.cluster_arn}/computenodegroup/*"
        reconcile: Resources = {}
        if plan.windows and (plan.keeps_size or plan.terms.ends_at):
            reconcile = self._reconcile(
                fleet,
                compute_node_group_calls(
                    partition_of(stack_of(self)),
                    group_arns,
                    plan=plan,
                    fleet=path_of(self),
                    role_arn=self.role.role_arn,
                    profile_arn=self.cfn_instance_profile.attr_arn,
                ),
                self.cfn_compute_node_group,
                windows=sized_windows(plan),
                raises_alarms=settings is not None,
                log_key_arn=None if log_key is None else log_key.key_arn,
                after_stack=True,
            )
        self.alarms: NodeAlarms | None = self._watch(
            plan,
            settings,
            reconcile,
            self.cfn_compute_node_group,
            accepted=_RECONCILE,
            group_arns=group_arns,
            before=[path for path in BEFORE_GROUP if path != DEPLOYED],
        )

    @property
    def node_group_id(self) -> str:
        """Id of the group, known at deployment."""
        return self.cfn_compute_node_group.attr_id

    @property
    def node_group_arn(self) -> str:
        """ARN of the group, known at deployment."""
        return self.cfn_compute_node_group.attr_arn

    @property
    def fleet_name(self) -> str:
        """Name of the group, as `node_group_name`."""
        return self.node_group_name

    @property
    def _instance_tags(self) -> Mapping[str, str]:
        # AWS PCS user guide, "Finding compute node group instances in AWS PCS": PCS tags its instances.
        return {"aws:pcs:compute-node-group-id": self.node_group_id}

    def _plan(
        self,
        construct_id: str,
        plan: FleetPlan,
        node: NodeRequest,
        slurm_version: str | None,
        options: PcsNodeGroupProps,
    ) -> ComputeNodeGroupPlan:
        name, idle = options.get("node_group_name"), options.get("scale_down_idle_time")
        own = self._scripts(node_settings(plan, node)) if options.get("lifecycle_actions", True) else ()
        return plan_compute_node_group(
            plan,
            ComputeNodeGroupRequest(
                key=construct_id,
                node_group_name=name,
                known_name=resolved_or_none(name),
                slurm_version=slurm_version,
                slurm_settings=options.get("slurm_settings") or {},
                features=tuple(options.get("features", ())),
                weight=options.get("weight"),
                gres_mode=options.get("gres_mode", GresMode.AUTODETECT),
                scale_down_idle_seconds=None if idle is None else math.ceil(idle.to_seconds()),
                scripts=(*own, *options.get("lifecycle_scripts", ())),
                keeps_nodes=options.get("update_policy") is UpdatePolicy.NEVER_REPLACE,
            ),
        )

    def _scripts(self, settings: NodeSettings) -> tuple[LifecycleScript, ...]:
        """The library's scripts, as AWS PCS runs them on these nodes."""
        return pcs_lifecycle_scripts(settings)

    def _template(
        self, cluster: SlurmCluster, fleet: ResolvedFleet, user_data: str, options: PcsNodeGroupProps
    ) -> GpuLaunchTemplate:
        root_volume = options["root_volume"]
        assert root_volume is not None  # noqa: S101 - set above
        if root_volume.encryption_key:
            allow_pcs(root_volume.encryption_key)
        return GpuLaunchTemplate(
            self,
            "LaunchTemplate",
            instance_type=fleet.plan.instance_type.name,
            orchestrator=Orchestrator.PCS,
            fabric=self.fabric,
            security_groups=[
                # First, so that file systems admit it: rules for the cluster's group, which all nodes share, would be
                # made for each group of nodes, and EC2 refuses the same rule twice.
                *host_groups(self, fleet.plan, vpc=cluster.vpc, fabric=self.fabric),
                *cluster.security_groups,
                *options.get("security_groups", ()),
                *self._own_groups(cluster.vpc),
            ],
            placement_group=self.placement_group,
            root_volume=root_volume,
            # PCS wants the subnet of the group; in one of several subnets no interface may name it.
            subnet=fleet.subnets[0] if len(fleet.subnets) == 1 else None,
            associate_public_ip_address=fleet.is_public,
            name_tag=path_of(self),
            metadata_hop_limit=options.get("metadata_hop_limit", 1),
            user_data=user_data,
            # The name of a secret is no secret.
            not_secret=[
                *options.get("not_secret", ()),
                *(["GPU_DIRECTORY_SECRET"] if options.get("directory") else []),
            ],
            _resolved=fleet,
        )

    def _own_groups(self, _: ec2.IVpc) -> list[ec2.ISecurityGroup]:
        """Further groups that are made for the nodes."""
        return []


def _with_reservation_group(scope: Construct, fleet: ResolvedFleet) -> ResolvedFleet:
    """Let the group launch into a reservation by a resource group, the one form that all editions of the guide have.

    Source: AWS PCS user guide, "Overview of launch templates in AWS PCS" and "Using ODCRs with AWS PCS".
    """
    terms = fleet.capacity.terms
    if terms.kind is not CapacityKind.RESERVATION or terms.reservation_id is None:
        return fleet
    pool = reservation_pool(
        scope,
        "Reservation",
        name=cdk.Names.unique_resource_name(scope, max_length=100, separator="-"),
        reservation_arns=[arn_of(scope, "ec2", f"capacity-reservation/{terms.reservation_id}")],
    )
    terms = replace(terms, reservation_group_arn=pool.attr_arn)
    return replace(fleet, capacity=replace(fleet.capacity, terms=terms))


def _numbers_of(names: Sequence[str], users: UserList | None) -> tuple[str, ...]:
    """Users of the list by their numbers: the nodes make these users only after they have limited the metadata."""
    numbers = {} if users is None else {one.name: str(one.uid) for one in users.users}
    return tuple(numbers.get(name, name) for name in names)


def _script_assets(scope: Construct, scripts: Sequence[LifecycleScript]) -> dict[str, NodeAsset]:
    """The scripts in S3, by name."""
    if not scripts:
        return {}
    parent = Construct(scope, "Scripts")
    return {
        one.name: NodeAsset(parent, one.name, content=one.content.encode(), file_extension=".pcs-script")
        for one in scripts
    }


def compute_nodes(
    scope: Construct,
    *,
    cluster_id: str,
    profile_arn: str,
    subnet_ids: Sequence[str],
    template: GpuLaunchTemplate,
    plan: FleetPlan,
    group: ComputeNodeGroupPlan,
    scripts: Mapping[str, NodeAsset],
    needs: Sequence[IDependable],
) -> pcs.CfnComputeNodeGroup:
    """Define the compute node group, as the resource that CloudFormation takes; ids may be tokens.

    The launch template has the image, so that `AmiId` is left out: PCS would prefer it to the template's.
    """
    # Dictionaries in camel case, which CDK passes on as given.
    made = pcs.CfnComputeNodeGroup(
        scope,
        "Resource",
        cluster_id=cluster_id,
        name=group.name,
        iam_instance_profile_arn=profile_arn,
        instance_configs=[{"instanceType": plan.instance_type.name}],
        scaling_configuration={"minInstanceCount": group.minimum, "maxInstanceCount": group.maximum},
        subnet_ids=list(subnet_ids),
        custom_launch_template={"templateId": template.launch_template_id, "version": template.latest_version_number},
        purchase_option=group.purchase_option.value,
        spot_options={"allocationStrategy": _SPOT_STRATEGY} if group.purchase_option is PurchaseOption.SPOT else None,
        slurm_configuration=_slurm(group),
        node_lifecycle_actions=_lifecycle_actions(group.request.scripts, scripts),
    )
    made.node.add_dependency(*needs)
    scope.node.default_child = made
    return made


def custom_settings(settings: Mapping[str, str]) -> list[Any] | None:
    """Settings as AWS PCS takes them; None for none, since it refuses an empty list.

    Args:
        settings: Values by name.
    """
    return [{"parameterName": name, "parameterValue": value} for name, value in settings.items()] or None


def _slurm(group: ComputeNodeGroupPlan) -> dict[str, Any]:
    optional = {
        "slurmCustomSettings": custom_settings(group.slurm_settings),
        "gresCustomSettings": [dict(one) for one in group.gres_records] or None,
        "scaleDownIdleTimeInSeconds": group.request.scale_down_idle_seconds,
    }
    return {name: value for name, value in optional.items() if value is not None}


def _lifecycle_actions(scripts: Sequence[LifecycleScript], assets: Mapping[str, NodeAsset]) -> Any:
    stages: dict[str, list[dict[str, Any]]] = {}
    for one in scripts:
        asset = assets[one.name]
        stage = one.stage.value[0].lower() + one.stage.value[1:]
        stages.setdefault(stage, []).append(
            {
                "name": one.name,
                "scriptSource": {
                    "scriptLocation": f"s3://{asset.bucket_name}/{asset.object_key}",
                    "checksum": asset.sha256,
                },
                **({"arguments": list(one.arguments)} if one.arguments else {}),
                "onError": one.on_error.value,
                "executionPolicy": one.execution.value,
            }
        )
    return {"scriptCachingPolicy": _SCRIPT_CACHING, "stages": stages} if stages else None
