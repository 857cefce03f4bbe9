"""A training fleet: one stack per fleet, named after it."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters.compute.fleet import GpuFleet
from cdk_gpu_clusters_stacks.capacity import CapacityStack
from cdk_gpu_clusters_stacks.checkpoints import CheckpointStack, ExistingCheckpoints
from cdk_gpu_clusters_stacks.fabric import FabricStack
from cdk_gpu_clusters_stacks.network import ClusterPlace
from cdk_gpu_clusters_stacks.nodes import (
    FileSystems,
    FileSystemsOfFleet,
    add_tags,
    node_image,
    node_options,
    publish_fleet,
    tell_people,
    user_parts,
)
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec


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
        here = place.within(self)
        file_systems = FileSystemsOfFleet(self, mounts)
        buckets = None if checkpoints is None else checkpoints.within(self)
        self.fleet = GpuFleet(
            self,
            "Fleet",
            vpc=here.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=here.subnets),
            efa=fabric is not None,
            interface_policy=fleet.interface_policy,
            fabric=None if fabric is None else fabric.within(self),
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
