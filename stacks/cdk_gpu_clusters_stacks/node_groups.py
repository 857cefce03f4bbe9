"""A fleet on Amazon EKS: one stack per fleet, named after it, with a managed node group."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters.node.kubernetes_node import kubectl_part
from cdk_gpu_clusters.node.settings import UserDataPart
from cdk_gpu_clusters.orchestration.eks.node_group import EksGpuNodeGroup
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL
from cdk_gpu_clusters_stacks.capacity import CapacityStack
from cdk_gpu_clusters_stacks.data import CheckpointStack, ExistingCheckpoints
from cdk_gpu_clusters_stacks.eks import EksStack, ExistingEks
from cdk_gpu_clusters_stacks.fleets import (
    FileSystems,
    FileSystemsOfFleet,
    add_tags,
    node_options,
    tell_people,
    user_parts,
)
from cdk_gpu_clusters_stacks.network import ClusterNetworkRef, FabricStack
from cdk_gpu_clusters_stacks.references import publish
from cdk_gpu_clusters_stacks.spec.eks import KubectlSpec, ProgramSpec
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec


class NodeGroupStack(cdk.Stack):
    """One `EksGpuNodeGroup`: a training or an inference fleet of the cluster file."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        fleet: FleetSpec | InferenceFleetSpec,
        cluster: EksStack | ExistingEks,
        place: ClusterNetworkRef,
        fabric: FabricStack | None,
        capacity: CapacityStack | None,
        mounts: FileSystems,
        checkpoints: CheckpointStack | ExistingCheckpoints | None,
        kubectl: KubectlSpec,
        env: cdk.Environment,
    ) -> None:
        """Define the stack.

        Args:
            scope: The app.
            construct_id: Id, and name of the stack.
            name: Name of the fleet, by which pods select its nodes.
            fleet: The fleet as the cluster file has it.
            cluster: The cluster that the nodes join.
            place: Network of the cluster.
            fabric: EFA fabric of the fleet, None without EFA.
            capacity: Reservation made for the fleet, None for other capacity.
            mounts: File systems by mount point.
            checkpoints: Buckets that the nodes may read and write, if any.
            kubectl: kubectl for the nodes.
            env: Account and Region.
        """
        super().__init__(scope, construct_id, env=env, description="Node group of a GPU cluster")
        here = place.import_into(self)
        file_systems = FileSystemsOfFleet(self, mounts)
        buckets = None if checkpoints is None else checkpoints.import_into(self)
        in_one_zone = isinstance(fleet, FleetSpec) or fleet.is_reserved
        self.node_group = EksGpuNodeGroup(
            self,
            "Nodes",
            cluster=cluster.import_into(self, here.vpc),
            vpc_subnets=ec2.SubnetSelection(subnets=here.subnets if in_one_zone else place.service_subnets(self)),
            efa=fabric is not None,
            interface_policy=fleet.requested_interfaces,
            fabric=None if fabric is None else fabric.import_into(self),
            scratch=fleet.scratch is not False,
            environment=_environment(fleet, buckets.node_environment if buckets else {}),
            user_data_parts=[
                *_kubectl(kubectl.of(fleet.instance_type)),
                *(user_parts(fleet) if isinstance(fleet, FleetSpec) else ()),
            ],
            labels={FLEET_LABEL: name},
            **node_options(self, fleet, file_systems, capacity),
        )
        if fabric is None:  # what a fabric shares is opened in a stack of its own
            file_systems.allow_from(
                self,
                self.node_group.launch_template.security_groups[0],
                before=self.node_group.cfn_nodegroup,
            )
        if buckets is not None:
            buckets.grant_read_write(self, self.node_group.role)
        weights = fleet.server.weights if isinstance(fleet, InferenceFleetSpec) else None
        if weights is not None and weights.s3_uri is not None:
            cluster.let_read_weights(self, weights.s3_uri)
        tell_people(self, self.node_group.alarms, fleet)
        add_tags(self.node_group, fleet)
        publish(self, "NodeGroupName", self.node_group.node_group_name, description="Node group of the fleet")
        publish(
            self,
            "LogGroupName",
            self.node_group.log_group.log_group_name,
            description="Boot events, a stream per node",
        )


def _environment(fleet: FleetSpec | InferenceFleetSpec, of_buckets: dict[str, str]) -> dict[str, str]:
    return {**of_buckets, **(fleet.environment if isinstance(fleet, FleetSpec) else {})}


def _kubectl(program: ProgramSpec | None) -> list[UserDataPart]:
    """The part that brings kubectl to the nodes, if the file names one for their processors."""
    return [] if program is None else [kubectl_part(url=program.url, sha256=program.sha256)]
