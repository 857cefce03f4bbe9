"""A training fleet: one stack per fleet, named after it."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.compute.fleet import GpuFleet
from cdk_gpu_clusters.compute.node_image import NodeImage
from cdk_gpu_clusters.compute.root_volume import RootVolume
from cdk_gpu_clusters.node.settings import UserPart
from cdk_gpu_clusters_stacks.capacity import CapacityStack, existing_capacity
from cdk_gpu_clusters_stacks.checkpoints import CheckpointStack, ExistingCheckpoints
from cdk_gpu_clusters_stacks.data import ExistingLustre, LustreStack, ReachedLustre
from cdk_gpu_clusters_stacks.fabric import FabricStack
from cdk_gpu_clusters_stacks.network import ClusterPlace
from cdk_gpu_clusters_stacks.references import publish
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.image import ImageById, ImageByParameter, ImageSpec


class FleetStack(cdk.Stack):
    """One `GpuFleet` of the cluster file."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        fleet: FleetSpec,
        place: ClusterPlace,
        fabric: FabricStack | None,
        capacity: CapacityStack | None,
        mounts: Mapping[str, LustreStack | ExistingLustre],
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
        here = place.within(self)
        stores = {store: store.within(self) for store in mounts.values()}
        buckets = None if checkpoints is None else checkpoints.within(self)
        self.fleet = GpuFleet(
            self,
            "Fleet",
            vpc=here.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=here.subnets),
            instance_type=fleet.instance_type,
            min_node_count=fleet.minimum_nodes,
            max_node_count=fleet.maximum_nodes,
            capacity=self._capacity(fleet, capacity),
            efa=fabric is not None,
            interface_policy=fleet.interface_policy,
            fabric=None if fabric is None else fabric.within(self),
            placement=fleet.placement_strategy,
            image=_image(fleet.image),
            root_volume=_root_volume(fleet),
            mounts={point: stores[store] for point, store in mounts.items()},
            environment={**(buckets.node_environment if buckets else {}), **fleet.environment},
            user_data_parts=_parts(fleet),
            update_policy=UpdatePolicy(fleet.update),
        )
        if fabric is None:
            self._let_in(stores)
        if buckets is not None:
            buckets.grant_read_write(self, self.fleet.role)
        for key, value in fleet.tags.items():
            cdk.Tags.of(self.fleet).add(key, value)
        self._publish()

    def _let_in(self, stores: Mapping[LustreStack | ExistingLustre, ReachedLustre]) -> None:
        """Open the file systems to the fleet's own group; what a fabric shares is opened in a stack of its own."""
        (group, *_) = self.fleet.launch_template.security_groups
        for index, store in enumerate(stores.values()):
            rules = store.let_in(self, f"Data{index or ''}", group)
            self.fleet.cfn_auto_scaling_group.node.add_dependency(rules)

    def _capacity(self, fleet: FleetSpec, made: CapacityStack | None) -> Capacity:
        return existing_capacity(self, fleet) if made is None else made.within(self)

    def _publish(self) -> None:
        publish(self, "FleetName", self.fleet.fleet_name, description="Auto Scaling group of the fleet")
        publish(
            self,
            "SessionCommand",
            self.fleet.session_command,
            description="Opens a session on the first node",
        )
        publish(
            self,
            "LogGroupName",
            self.fleet.log_group.log_group_name,
            description="Boot events, a stream per node",
        )


def _image(image: ImageSpec | None) -> NodeImage | None:
    if image is None:
        return None
    if isinstance(image, ImageById):
        return NodeImage.from_id(image.id, operating_system=image.os)
    if isinstance(image, ImageByParameter):
        return NodeImage.from_parameter(image.parameter, operating_system=image.os)
    return NodeImage.pinned(image.os) if image.pinned else NodeImage.latest(image.os)


def _root_volume(fleet: FleetSpec) -> RootVolume:
    wishes = fleet.root_volume.model_dump(exclude_none=True)
    return RootVolume(**wishes)


def _parts(fleet: FleetSpec) -> list[UserPart]:
    if fleet.user_data is None:
        return []
    text = fleet.user_data.read_text(encoding="utf-8")
    return [UserPart(content_type="text/x-shellscript", body=text)]
