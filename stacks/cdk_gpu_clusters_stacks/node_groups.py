"""A fleet on Amazon EKS: one stack per fleet, named after it, with a managed node group."""

from __future__ import annotations

from cdk_gpu_clusters.node.kubernetes_node import kubectl_part
from cdk_gpu_clusters.node.settings import UserDataPart
from cdk_gpu_clusters.orchestration.eks.node_group import EksGpuNodeGroup
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL
from cdk_gpu_clusters_stacks.capacity import CapacityStack
from cdk_gpu_clusters_stacks.eks import EksStack, ExistingEks
from cdk_gpu_clusters_stacks.fleets import NodesStack, Site
from cdk_gpu_clusters_stacks.network import FabricStack
from cdk_gpu_clusters_stacks.references import publish
from cdk_gpu_clusters_stacks.spec.eks import ProgramSpec
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet


class NodeGroupStack(NodesStack):
    """One `EksGpuNodeGroup`: a training or an inference fleet of the cluster file."""

    def __init__(
        self,
        site: Site,
        fleet: PlannedFleet,
        *,
        cluster: EksStack | ExistingEks,
        fabric: FabricStack | None,
        capacity: CapacityStack | None,
    ) -> None:
        super().__init__(site, fleet, description="Node group of a GPU cluster", capacity=capacity, fabric=fabric)
        spec, program = fleet.spec, site.spec.eks.kubectl.of(fleet.plan.instance_type.architecture)
        self.node_group = EksGpuNodeGroup(
            self,
            "Nodes",
            cluster=cluster.import_into(self, self.here.vpc),
            vpc_subnets=self.node_subnets(),
            scratch=spec.scratch is not False,
            user_data_parts=[*_kubectl(program), *self.user_parts()],
            labels={FLEET_LABEL: fleet.name},
            **self.training_options(),
            **self.node_options(),
        )
        weights = spec.server.weights if isinstance(spec, InferenceFleetSpec) else None
        if weights is not None and weights.s3_uri is not None:
            cluster.let_read_weights(self, weights.s3_uri, weights.encryption_key_arn)
        self.complete(self.node_group, self.node_group, lambda: self.node_group.cfn_nodegroup)
        publish(self, "NodeGroupName", self.node_group.node_group_name, description="Node group of the fleet")
        log_group = self.node_group.log_group.log_group_name
        publish(self, "LogGroupName", log_group, description="Boot events, a stream per node")


def _kubectl(program: ProgramSpec | None) -> list[UserDataPart]:
    """The part that brings kubectl to the nodes, if the file names one for their processors."""
    return [] if program is None else [kubectl_part(url=program.url, sha256=program.sha256)]
