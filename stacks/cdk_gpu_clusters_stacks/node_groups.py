"""A fleet on Amazon EKS: one stack per fleet, named after it, with a managed node group or a node pool of Karpenter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters.node.kubernetes_node import kubectl_part
from cdk_gpu_clusters.node.settings import UserDataPart
from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
from cdk_gpu_clusters.orchestration.eks.node_group import EksGpuNodeGroup
from cdk_gpu_clusters.orchestration.eks.node_pool import EksGpuNodePool
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL
from cdk_gpu_clusters_stacks.capacity import CapacityStack
from cdk_gpu_clusters_stacks.eks import EksStack, ExistingEks, KarpenterStack
from cdk_gpu_clusters_stacks.fleets import NodeOptions, NodesStack, Site, TrainingOptions
from cdk_gpu_clusters_stacks.network import FabricStack
from cdk_gpu_clusters_stacks.references import publish
from cdk_gpu_clusters_stacks.spec.eks import ProgramSpec
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet


class Uses(TypedDict):
    """What the stack of a fleet on Amazon EKS uses of others."""

    cluster: EksStack | ExistingEks
    fabric: FabricStack | None
    capacity: CapacityStack | None


class GroupOptions(NodeOptions, TrainingOptions):
    """What fleets on Amazon EKS take from the cluster file, whoever launches their nodes."""

    vpc_subnets: ec2.SubnetSelection
    scratch: bool
    user_data_parts: Sequence[UserDataPart]
    labels: Mapping[str, str]


class _EksNodesStack(NodesStack):
    """What the stacks of all fleets on Amazon EKS have."""

    def __init__(self, site: Site, fleet: PlannedFleet, *, description: str, **uses: Unpack[Uses]) -> None:
        super().__init__(site, fleet, description=description, capacity=uses["capacity"], fabric=uses["fabric"])
        self._kubectl = site.spec.eks.kubectl.of(fleet.plan.instance_type.architecture)
        self._joined = uses["cluster"]
        self.cluster: IEksGpuCluster = uses["cluster"].import_into(self, self.here.vpc)

    def group_options(self) -> GroupOptions:
        """The options of the nodes, whoever launches them."""
        return GroupOptions(
            vpc_subnets=self.node_subnets(),
            scratch=self.planned.spec.scratch is not False,
            user_data_parts=[*_kubectl(self._kubectl), *self.user_parts()],
            labels={FLEET_LABEL: self.planned.name},
            **self.training_options(),
            **self.node_options(),
        )

    def let_read_weights(self) -> None:
        """Let pods read the weights of the fleet's model."""
        spec = self.planned.spec
        weights = spec.server.weights if isinstance(spec, InferenceFleetSpec) else None
        if weights is not None and weights.s3_uri is not None:
            self._joined.let_read_weights(self, weights.s3_uri, weights.encryption_key_arn)


class NodeGroupStack(_EksNodesStack):
    """One `EksGpuNodeGroup`: a training or an inference fleet of the cluster file."""

    def __init__(self, site: Site, fleet: PlannedFleet, **uses: Unpack[Uses]) -> None:
        super().__init__(site, fleet, description="Node group of a GPU cluster", **uses)
        self.node_group = EksGpuNodeGroup(self, "Nodes", cluster=self.cluster, **self.group_options())
        self.let_read_weights()
        self.complete(
            self.node_group,
            self.node_group,
            lambda: self.node_group.cfn_nodegroup,
            group=self.node_group.launch_template.security_groups[0],
        )
        publish(self, "NodeGroupName", self.node_group.node_group_name, description="Node group of the fleet")
        log_group = self.node_group.log_group.log_group_name
        publish(self, "LogGroupName", log_group, description="Boot events, a stream per node")


class NodePoolStack(_EksNodesStack):
    """One `EksGpuNodePool`: the same fleet, whose nodes Karpenter launches."""

    def __init__(self, site: Site, fleet: PlannedFleet, *, karpenter: KarpenterStack, **uses: Unpack[Uses]) -> None:
        super().__init__(site, fleet, description="Node pool of a GPU cluster", **uses)
        launcher, software = karpenter.import_into(self, self.cluster)
        self.pool = EksGpuNodePool(
            self,
            "Nodes",
            karpenter=launcher,
            software=software,
            # Tags of the app do not reach what Karpenter makes.
            instance_tags={"gpu-cluster": site.spec.name, **site.spec.tags, **fleet.spec.tags},
            **self.group_options(),
        )
        self.let_read_weights()
        assert self.pool.manifest is not None  # noqa: S101 - there is software
        manifest = self.pool.manifest
        self.complete(self.pool, self.pool, lambda: manifest, group=self.pool.security_groups[0])
        publish(self, "NodePoolName", self.pool.fleet_name, description="Node pool of the fleet")
        publish(self, "LogGroupName", self.pool.log_group.log_group_name, description="Boot events, a stream per node")


def _kubectl(program: ProgramSpec | None) -> list[UserDataPart]:
    """The part that brings kubectl to the nodes, if the file names one for their processors."""
    return [] if program is None else [kubectl_part(url=program.url, sha256=program.sha256)]
