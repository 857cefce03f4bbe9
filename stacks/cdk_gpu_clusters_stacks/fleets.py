"""Fleets on plain EC2, one stack per fleet, and what all fleet stacks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.compute.alarms import AlarmTopic, NodeAlarms
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.compute.fleet import GpuFleet
from cdk_gpu_clusters.compute.node_image import NodeImage
from cdk_gpu_clusters.compute.root_volume import RootVolume
from cdk_gpu_clusters.node.mig import FabricManagerOrder
from cdk_gpu_clusters.node.settings import NodeWatch, UserDataPart
from cdk_gpu_clusters.rules.fleet import AlarmSettings
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.placement import PlacementStrategy
from cdk_gpu_clusters_stacks.capacity import CapacityStack, existing_capacity
from cdk_gpu_clusters_stacks.data import (
    CheckpointStack,
    ExistingCheckpoints,
    ExistingLustre,
    LustreStack,
    ReachedLustre,
)
from cdk_gpu_clusters_stacks.network import ClusterNetworkRef, FabricStack
from cdk_gpu_clusters_stacks.references import publish
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec, ImageById, ImageByParameter, ImageSpec, NodesSpec
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec

FileSystems = Mapping[str, LustreStack | ExistingLustre]


class FileSystemsOfFleet:
    """The file systems of a fleet, as its stack sees them.

    Attributes:
        mounts: What the nodes mount, by mount point.
    """

    def __init__(self, reader: cdk.Stack, mounts: FileSystems) -> None:
        """Import them into the stack, each once."""
        self._stores: dict[LustreStack | ExistingLustre, ReachedLustre] = {
            store: store.import_into(reader) for store in mounts.values()
        }
        self.mounts = {point: self._stores[store] for point, store in mounts.items()}

    def allow_from(self, scope: Construct, group: ec2.ISecurityGroup, *, before: cdk.CfnResource) -> None:
        """Open them to the fleet's own group, before the resource that starts its nodes."""
        for index, store in enumerate(self._stores.values()):
            rules = store.allow_from(scope, f"Data{index or ''}", group)
            before.node.add_dependency(rules)

    def let_fleet_in(self, scope: Construct, fleet: GpuFleet) -> None:
        """Open them to a fleet on plain EC2."""
        (group, *_) = fleet.launch_template.security_groups
        self.allow_from(scope, group, before=fleet.cfn_auto_scaling_group)


def user_parts(fleet: FleetSpec) -> list[UserDataPart]:
    """The user's own script, to run at first boot."""
    if fleet.user_data is None:
        return []
    text = fleet.user_data.read_text(encoding="utf-8")
    return [UserDataPart(content_type="text/x-shellscript", body=text)]


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
    mounts: Mapping[str, ReachedLustre]
    watch: NodeWatch
    alarms: AlarmSettings | None
    evidence_bucket: s3.IBucket | None
    update_policy: UpdatePolicy


def node_options(
    stack: cdk.Stack,
    spec: FleetSpec | InferenceFleetSpec,
    file_systems: FileSystemsOfFleet,
    capacity: CapacityStack | None,
) -> NodeOptions:
    """The options of a fleet that every construct takes.

    Args:
        stack: Its stack.
        spec: The fleet as the cluster file has it.
        file_systems: What its nodes mount.
        capacity: Reservation made for the fleet; None for other capacity.
    """
    evidence = spec.evidence_bucket
    return NodeOptions(
        instance_type=spec.instance_type,
        min_node_count=spec.minimum_nodes,
        max_node_count=spec.maximum_nodes,
        capacity=existing_capacity(stack, spec) if capacity is None else capacity.import_into(stack),
        placement=spec.placement_strategy,
        root_volume=_root_volume(stack, spec),
        mig=spec.mig_layouts,
        fabric_manager_order=FabricManagerOrder(spec.fabric_manager_order),
        mounts=file_systems.mounts,
        watch=spec.watch.settings,
        alarms=spec.alarms.settings,
        evidence_bucket=None if evidence is None else s3.Bucket.from_bucket_name(stack, "Evidence", evidence),
        update_policy=UpdatePolicy(spec.update),
    )


def _root_volume(stack: cdk.Stack, spec: NodesSpec) -> RootVolume:
    arn = spec.root_volume.encryption_key_arn
    return RootVolume(
        **spec.root_volume.model_dump(exclude_none=True, exclude={"encryption_key_arn"}),
        encryption_key=None if arn is None else kms.Key.from_key_arn(stack, "RootVolumeKey", arn),
    )


def node_image(image: ImageSpec | None) -> NodeImage | None:
    """The machine image; None if the library chooses."""
    if image is None:
        return None
    if isinstance(image, ImageById):
        return NodeImage.from_id(image.id, operating_system=image.os)
    if isinstance(image, ImageByParameter):
        return NodeImage.from_parameter(image.parameter, operating_system=image.os)
    return NodeImage.pinned(image.os) if image.pinned else NodeImage.latest(image.os)


def tell_people(scope: Construct, alarms: NodeAlarms | None, spec: NodesSpec) -> None:
    """Send the alarms of a fleet to the recipients of the file."""
    if alarms is None or not spec.alarms.tells:
        return
    from aws_cdk import aws_sns as sns  # takes long to load

    if spec.alarms.topic_arn is not None:
        alarms.add_topic(sns.Topic.from_topic_arn(scope, "Operators", spec.alarms.topic_arn))
    if spec.alarms.emails:
        alarms.add_topic(AlarmTopic(scope, "AlarmMail", emails=spec.alarms.emails).topic)


def add_tags(fleet: Construct, spec: NodesSpec) -> None:
    """Give all of a fleet its tags."""
    for key, value in spec.tags.items():
        cdk.Tags.of(fleet).add(key, value)


def publish_fleet(stack: cdk.Stack, fleet: GpuFleet) -> None:
    """Publish how a person reaches a fleet."""
    publish(stack, "FleetName", fleet.fleet_name, description="Auto Scaling group of the fleet")
    publish(stack, "SessionCommand", fleet.session_command, description="Opens a session on the first node")
    publish(stack, "LogGroupName", fleet.log_group.log_group_name, description="Boot events, a stream per node")


# A training fleet: one stack per fleet, named after it.


class FleetStack(cdk.Stack):
    """One `GpuFleet` of the cluster file."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        fleet: FleetSpec,
        place: ClusterNetworkRef,
        fabric: FabricStack | None,
        capacity: CapacityStack | None,
        mounts: FileSystems,
        checkpoints: CheckpointStack | ExistingCheckpoints | None,
        env: cdk.Environment,
    ) -> None:
        """Define the stack.

        Args:
            scope: The app.
            construct_id: Id, and name of the stack.
            fleet: The fleet as the cluster file has it.
            place: Network of the cluster.
            fabric: EFA fabric of the fleet, None without EFA.
            capacity: Reservation made for the fleet, None for other capacity.
            mounts: File systems by mount point.
            checkpoints: Buckets that the nodes may read and write, if any.
            env: Account and Region.
        """
        super().__init__(scope, construct_id, env=env, description="Fleet of a GPU cluster")
        here = place.import_into(self)
        file_systems = FileSystemsOfFleet(self, mounts)
        buckets = None if checkpoints is None else checkpoints.import_into(self)
        self.fleet = GpuFleet(
            self,
            "Fleet",
            vpc=here.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=here.subnets),
            efa=fabric is not None,
            interface_policy=fleet.interface_policy,
            fabric=None if fabric is None else fabric.import_into(self),
            image=node_image(fleet.image),
            scratch=fleet.scratch,
            environment={**(buckets.node_environment if buckets else {}), **fleet.environment},
            user_data_parts=user_parts(fleet),
            **node_options(self, fleet, file_systems, capacity),
        )
        if fabric is None:  # what a fabric shares is opened in a stack of its own
            file_systems.let_fleet_in(self, self.fleet)
        if buckets is not None:
            buckets.grant_read_write(self, self.fleet.role)
        tell_people(self, self.fleet.alarms, fleet)
        add_tags(self.fleet, fleet)
        publish_fleet(self, self.fleet)
