"""Fleets on plain EC2, one stack per fleet, and what all fleet stacks share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.compute.alarms import AlarmTopic, NodeAlarms
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.compute.fleet import GpuFleet
from cdk_gpu_clusters.compute.node_image import NodeImage
from cdk_gpu_clusters.compute.node_role import grant_before
from cdk_gpu_clusters.compute.root_volume import RootVolume
from cdk_gpu_clusters.node.exporters import NodeExporters
from cdk_gpu_clusters.node.mig import FabricManagerOrder
from cdk_gpu_clusters.node.settings import NodeWatch, UserDataPart
from cdk_gpu_clusters.rules.fleet import AlarmSettings
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.placement import PlacementStrategy
from cdk_gpu_clusters_stacks.capacity import CapacityStack, existing_capacity
from cdk_gpu_clusters_stacks.data import (
    MOUNTED,
    CheckpointStack,
    ExistingCheckpoints,
    MountedStore,
    Reached,
    Store,
)
from cdk_gpu_clusters_stacks.network import ClusterNetworkRef, FabricStack
from cdk_gpu_clusters_stacks.references import publish
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec, ImageById, ImageByParameter, ImageSpec, MuteSpec, read_script
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import inference_stack, training_stack


@dataclass(frozen=True, slots=True)
class Site:
    """What the stacks of a cluster have in common: the app, the cluster file, its network, and its stores by name."""

    app: cdk.App
    spec: ClusterSpec
    place: ClusterNetworkRef
    stores: Mapping[str, Store]
    env: cdk.Environment


class Nodes(Protocol):
    """What the constructs of all kinds of fleets have."""

    @property
    def role(self) -> iam.IRole: ...

    @property
    def alarms(self) -> NodeAlarms | None: ...

    @property
    def fleet_path(self) -> str: ...


class MonitoredFleet(Protocol):
    """A fleet as the dashboard of a cluster knows it: a `NodesStack`, or a part of another stack."""

    @property
    def planned(self) -> PlannedFleet: ...

    @property
    def capacity(self) -> CapacityStack | None: ...

    @property
    def nodes(self) -> Nodes: ...


class NodeOptions(TypedDict):
    """What every kind of fleet takes from the cluster file in the same way."""

    instance_type: str
    min_node_count: int
    max_node_count: int
    capacity: Capacity
    placement: PlacementStrategy | None
    root_volume: RootVolume
    mig: MigLayout | Sequence[MigLayout] | None
    fabric_manager_order: FabricManagerOrder
    mounts: Mapping[str, Reached]
    read_only_mounts: Sequence[str]
    watch: NodeWatch
    exporters: NodeExporters | None
    alarms: AlarmSettings | None
    evidence_bucket: s3.IBucket | None
    not_secret: Sequence[str]
    update_policy: UpdatePolicy


class TrainingOptions(TypedDict):
    """What fleets take besides if people have their own jobs on the nodes."""

    efa: bool
    interface_policy: InterfacePolicy | None
    fabric: ec2.ISecurityGroup | None
    environment: Mapping[str, str]


def mounted_stores(mounts: Mapping[str, str], stores: Mapping[str, Store]) -> dict[str, MountedStore]:
    """The file systems of mounts, by mount point."""
    return {point: store for point, name in mounts.items() if isinstance(store := stores[name], MOUNTED)}


class NodesStack(cdk.Stack):
    """The stack of a fleet, named after its key in the cluster file, with what all kinds of fleets have.

    Attributes:
        planned: The fleet of the file.
        capacity: Stack of the reservation that is made for the fleet; None for other capacity.
        here: The network, imported into this stack.
        nodes: What the fleet has.
    """

    def __init__(
        self,
        site: Site,
        fleet: PlannedFleet,
        *,
        description: str,
        capacity: CapacityStack | None,
        fabric: FabricStack | None = None,
    ) -> None:
        """Import what the fleet uses.

        Args:
            capacity: Reservation made for the fleet; None for other capacity.
            fabric: EFA fabric of the fleet; None without EFA.
        """
        name_of = training_stack if isinstance(fleet.spec, FleetSpec) else inference_stack
        super().__init__(
            site.app,
            name_of(site.spec.name, fleet.name),
            env=site.env,
            description=description,
            termination_protection=site.spec.termination_protection and fleet.plan.terms.kind.is_reserved,
        )
        self.planned, self.capacity, self._place, self._fabric = fleet, capacity, site.place, fabric
        self.here = site.place.import_into(self)
        mounted = mounted_stores(fleet.spec.mounts, site.stores)
        self._file_systems = {store: store.import_into(self) for store in dict.fromkeys(mounted.values())}
        self._mounts = {point: self._file_systems[store] for point, store in mounted.items()}
        self._buckets = None
        if isinstance(fleet.spec, FleetSpec) and fleet.spec.checkpoints is not None:
            buckets = site.stores[fleet.spec.checkpoints]
            if isinstance(buckets, CheckpointStack | ExistingCheckpoints):
                self._buckets = buckets.import_into(
                    self, fleet.spec.checkpoint_folder(fleet.name), write=not fleet.spec.checkpoints_read_only
                )

    def node_subnets(self) -> ec2.SubnetSelection:
        """The subnets of the nodes."""
        in_zones = self.planned.is_in_service_subnets
        return ec2.SubnetSelection(subnets=self._place.service_subnets(self) if in_zones else self.here.subnets)

    def node_options(self) -> NodeOptions:
        """The options that every construct of a fleet takes."""
        spec, capacity = self.planned.spec, self.capacity
        evidence = spec.evidence_bucket
        return NodeOptions(
            instance_type=spec.instance_type,
            min_node_count=spec.minimum_nodes,
            max_node_count=spec.maximum_nodes,
            capacity=existing_capacity(self, spec) if capacity is None else capacity.import_into(self),
            placement=spec.placement_strategy,
            root_volume=self._root_volume(),
            mig=spec.mig_layouts,
            fabric_manager_order=FabricManagerOrder(spec.fabric_manager_order),
            mounts=self._mounts,
            read_only_mounts=spec.read_only_mounts,
            watch=self.planned.watch,
            exporters=self.planned.exporters,
            alarms=spec.alarms.settings,
            evidence_bucket=None if evidence is None else s3.Bucket.from_bucket_name(self, "Evidence", evidence),
            not_secret=spec.not_secret,
            update_policy=UpdatePolicy(spec.update),
        )

    def training_options(self) -> TrainingOptions:
        """The options of nodes on which people have their own jobs."""
        spec, fabric = self.planned.spec, self._fabric
        return TrainingOptions(
            efa=fabric is not None,
            interface_policy=spec.requested_interfaces,
            fabric=None if fabric is None else fabric.import_into(self),
            environment={
                **(self._buckets.node_environment if self._buckets else {}),
                **(spec.environment if isinstance(spec, FleetSpec) else {}),
            },
        )

    def user_parts(self) -> list[UserDataPart]:
        """The user's own script, to run at first boot."""
        spec = self.planned.spec
        if not isinstance(spec, FleetSpec) or spec.user_data is None:
            return []
        return [UserDataPart(content_type="text/x-shellscript", body=read_script(spec.user_data))]

    def _root_volume(self) -> RootVolume:
        volume = self.planned.spec.root_volume
        arn = volume.encryption_key_arn
        return RootVolume(
            size_gib=self.planned.root_volume_gib,
            **volume.model_dump(exclude_none=True, exclude={"encryption_key_arn", "size_gib"}),
            encryption_key=None if arn is None else kms.Key.from_key_arn(self, "RootVolumeKey", arn),
        )

    def complete(
        self,
        made: Construct,
        nodes: Nodes,
        started_by: Callable[[], Construct],
        *,
        group: ec2.ISecurityGroup,
        reads_checkpoints: iam.IRole | None = None,
    ) -> None:
        """Open the stores to a fleet, send its alarms to the recipients of the file, and add its tags.

        Args:
            made: The fleet, or the service that it is part of.
            nodes: What the fleet has; some of it is made at its first use.
            started_by: What starts its nodes.
            group: Security group of the nodes that stores admit.
            reads_checkpoints: Role with which jobs reach checkpoints; that of the nodes if left out.
        """
        self.nodes = nodes
        if self._fabric is None:  # what a fabric shares is opened in a stack of its own
            for index, store in enumerate(self._file_systems.values()):
                started_by().node.add_dependency(store.allow_from(self, f"Data{index or ''}", group))
        if self._buckets is not None:
            role = reads_checkpoints or nodes.role
            self._buckets.grant(self, role)
            grant_before(role, started_by())
        spec = self.planned.spec
        if spec.alarms.mute is not None and nodes.alarms is not None:
            _mute(nodes.alarms, spec.alarms.mute)
        if spec.alarms.tells and nodes.alarms is not None:
            from aws_cdk import aws_sns as sns  # takes long to load

            if spec.alarms.topic_arn is not None:
                nodes.alarms.add_topic(sns.Topic.from_topic_arn(self, "Operators", spec.alarms.topic_arn))
            if spec.alarms.emails:
                nodes.alarms.add_topic(AlarmTopic(self, "AlarmMail", emails=spec.alarms.emails).topic)
        for key, value in spec.tags.items():
            cdk.Tags.of(made).add(key, value)

    def complete_fleet(self, made: Construct, fleet: GpuFleet) -> None:
        """As `complete`, for a fleet on plain EC2; its outputs tell how a person reaches it."""
        first = fleet.launch_template.security_groups[0]
        self.complete(made, fleet, lambda: fleet.cfn_auto_scaling_group, group=first)
        publish(self, "FleetName", fleet.fleet_name, description="Auto Scaling group of the fleet")
        publish(self, "SessionCommand", fleet.session_command, description="Opens a session on the first node")
        publish(self, "LogGroupName", fleet.log_group.log_group_name, description="Boot events, a stream per node")
        if self.planned.has_dns_record:
            publish(
                self,
                "NodeSecurityGroupId",
                first.security_group_id,
                description="Security group that admits the collector of metrics",
            )


def _mute(alarms: NodeAlarms, mute: MuteSpec) -> None:
    from aws_cdk import aws_cloudwatch as cloudwatch  # takes long to load

    alarms.add_mute(
        "Mute",
        schedule=cloudwatch.ScheduleExpression.expression(f"cron({mute.cron})", cdk.TimeZone.of(mute.time_zone)),
        duration=cdk.Duration.minutes(mute.minutes),
        description="Maintenance, as the cluster file has it",
    )


def node_image(image: ImageSpec | None) -> NodeImage | None:
    """The machine image; None if the library chooses."""
    if image is None:
        return None
    if isinstance(image, ImageById):
        return NodeImage.from_id(image.id, operating_system=image.os)
    if isinstance(image, ImageByParameter):
        return NodeImage.from_parameter(image.parameter, operating_system=image.os)
    choose = NodeImage.pinned if image.pinned else NodeImage.latest
    return choose(image.os, framework=image.framework)


class FleetStack(NodesStack):
    """One `GpuFleet` of the cluster file."""

    def __init__(
        self,
        site: Site,
        fleet: PlannedFleet,
        spec: FleetSpec,
        *,
        fabric: FabricStack | None,
        capacity: CapacityStack | None,
    ) -> None:
        """Define the stack, as `NodesStack` has it."""
        super().__init__(site, fleet, description="Fleet of a GPU cluster", capacity=capacity, fabric=fabric)
        self.fleet = GpuFleet(
            self,
            "Fleet",
            vpc=self.here.vpc,
            vpc_subnets=self.node_subnets(),
            image=node_image(spec.image),
            scratch=spec.scratch,
            user_data_parts=self.user_parts(),
            metadata_users=spec.metadata_users,
            ray=fleet.ray,
            **self.training_options(),
            **self.node_options(),
        )
        self.complete_fleet(self.fleet, self.fleet)
