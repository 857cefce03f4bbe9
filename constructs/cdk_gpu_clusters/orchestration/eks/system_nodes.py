"""The small nodes without accelerators that hold a cluster's own pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from cdk_gpu_clusters._cdk import path_of
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.kubernetes import ami_type
from cdk_gpu_clusters.compute.launch_template import GpuLaunchTemplate
from cdk_gpu_clusters.compute.root_volume import RootVolume
from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
from cdk_gpu_clusters.orchestration.eks.node_role import EksNodeRole
from cdk_gpu_clusters.rules.interfaces import Orchestrator

_ROOT_VOLUME_GIB = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemNodes:
    """The system nodes of a cluster.

    Attributes:
        cfn_nodegroup: The CloudFormation resource.
        role: Role of the nodes.
        launch_template: Their launch template.
    """

    cfn_nodegroup: eks.CfnNodegroup
    role: EksNodeRole
    launch_template: GpuLaunchTemplate


def system_nodes(
    cluster: IEksGpuCluster,
    *,
    instance_type: InstanceType,
    node_count: int,
    subnets: Sequence[ec2.ISubnet],
) -> SystemNodes:
    """Define the system nodes: a managed node group over the zones of the control plane.

    Args:
        cluster: The cluster.
        instance_type: Type of the nodes.
        node_count: How many.
        subnets: Where they stand.
    """
    scope = Construct(cluster, "SystemNodes")
    image = ami_type(accelerator=None, architecture=instance_type.architecture)
    assert image is not None  # noqa: S101 - the catalogue has one for each architecture
    role = EksNodeRole(scope, "Role")
    # The type stands in the template: another one then replaces the nodes one by one, not the group.
    template = GpuLaunchTemplate(
        scope,
        "LaunchTemplate",
        instance_type=instance_type.name,
        orchestrator=Orchestrator.EKS_MANAGED,
        security_groups=[cluster.cluster_security_group],
        name_tag=path_of(cluster) + "/SystemNodes",
        root_volume=RootVolume(size_gib=_ROOT_VOLUME_GIB, throughput_mib_per_s=125),
    )
    group = eks.CfnNodegroup(
        scope,
        "Resource",
        cluster_name=cluster.cluster_name,
        node_role=role.role_arn,
        subnets=[subnet.subnet_id for subnet in subnets],
        ami_type=image.ami_type,
        version=cluster.kubernetes_version,
        launch_template=eks.CfnNodegroup.LaunchTemplateSpecificationProperty(
            id=template.launch_template_id, version=template.latest_version_number
        ),
        scaling_config=eks.CfnNodegroup.ScalingConfigProperty(
            min_size=node_count, desired_size=node_count, max_size=node_count
        ),
        update_config=eks.CfnNodegroup.UpdateConfigProperty(max_unavailable=1),
        node_repair_config=eks.CfnNodegroup.NodeRepairConfigProperty(enabled=True),
    )
    if cluster.node_prerequisites:
        group.node.add_dependency(*cluster.node_prerequisites)
    for subnet in subnets:  # a node's first boot needs the way out
        group.node.add_dependency(subnet.internet_connectivity_established)
    return SystemNodes(cfn_nodegroup=group, role=role, launch_template=template)
