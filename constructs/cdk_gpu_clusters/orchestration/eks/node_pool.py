"""A group of GPU nodes in a cluster of Amazon EKS that Karpenter launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from cdk_gpu_clusters._cdk import id_of_group, path_of, report
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.capacity.placement_group import name_of
from cdk_gpu_clusters.compute.alarms import NodeAlarms
from cdk_gpu_clusters.compute.fleet_mounts import join_stores
from cdk_gpu_clusters.compute.fleet_network import egress_dependency, id_of
from cdk_gpu_clusters.compute.root_volume import RootVolume
from cdk_gpu_clusters.fleet.karpenter import (
    NodeClassParts,
    check_karpenter,
    gpu_node_class,
    gpu_node_overlay,
    gpu_node_pool,
    is_static,
    karpenter_name,
)
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject
from cdk_gpu_clusters.node.user_data import check_user_data
from cdk_gpu_clusters.orchestration.eks.karpenter import IKarpenter
from cdk_gpu_clusters.orchestration.eks.nodes import EksGpuNodeGroupProps, EksNodes
from cdk_gpu_clusters.orchestration.eks.software import KubernetesSoftware
from cdk_gpu_clusters.rules.fleet import AlarmSettings
from cdk_gpu_clusters.rules.karpenter import check_managed_options

# Tags that Karpenter gives its instances (aws/karpenter-provider-aws @ 1d92708, concepts/nodeclasses.md, spec.tags).
_CLUSTER_TAG, _POOL_TAG = "eks:eks-cluster-name", "karpenter.sh/nodepool"


class EksGpuNodePool(EksNodes):
    """Nodes of one type in a cluster of Amazon EKS that Karpenter launches: a node class and a node pool.

    It takes the options of an `EksGpuNodeGroup`, and its nodes have the same interfaces, capacity, labels, kubelet,
    software and checks. Makes a role, an instance profile, a log group, and, where none is given, an EFA security group
    and a cluster placement group; and applies the objects of Karpenter through `KubernetesSoftware`.

    * On-demand and Spot nodes of a fixed size are kept by Karpenter (`replicas`, an alpha feature). With a minimum of 0
      and a maximum, and on reservations and Capacity Blocks, pods ask for nodes.
    * A node that does not get through its boot never joins. Karpenter ends it after 15 minutes.
    * Nodes with pods stay: none is consolidated, and none is replaced unless you set `update_policy`.

    Example:
        >>> from cdk_gpu_clusters import EksGpuCluster, EksGpuNodePool, Karpenter, KubernetesSoftware
        >>> cluster = EksGpuCluster(stack, "Pooled", vpc=two_zone_vpc)
        >>> karpenter = Karpenter(stack, "PoolKarpenter", cluster=cluster)
        >>> software = KubernetesSoftware(stack, "PoolSoftware", cluster=cluster)
        >>> chart = karpenter.install(software)
        >>> jobs = EksGpuNodePool(
        ...     stack, "Jobs", karpenter=karpenter, software=software, instance_type="g6e.xlarge", min_node_count=0,
        ...     max_node_count=8,
        ... )
        >>> [one["kind"] for one in jobs.objects]
        ['EC2NodeClass', 'NodePool']

    Attributes:
        plan: What was decided about the group as about every fleet: type, interfaces, placement, size.
        fabric: Security group in which the nodes exchange EFA traffic, None without EFA.
        placement_group: Placement group of the nodes, None where the capacity forbids or needs none.
        role: Role of the nodes.
        log_group: Boot events of the nodes, one stream per instance.
        node_asset: Software of the nodes in S3.
        node_pool: The group as manifests know it.
        labels: Labels of the nodes.
        taints: Taints of the nodes.
        security_groups: Security groups of every interface.
        cfn_instance_profile: Instance profile of the nodes, as an escape hatch.
        objects: The objects of Karpenter: node class, node pool and, where one is needed, node overlay.
        prerequisites: What has to exist before the objects are applied.
        manifest: What applies the objects; None if you do.
        alarms: The alarms, whose recipients `alarms.add_topic` sets; None if there are none.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        karpenter: IKarpenter,
        instance_type: str | ec2.InstanceType,
        software: KubernetesSoftware | None = None,
        instance_tags: Mapping[str, str] | None = None,
        **options: Unpack[EksGpuNodeGroupProps],
    ) -> None:
        """Define the nodes, and apply the objects.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope; in lower case the name of the objects, unless a label sets another.
            karpenter: What launches the nodes; its cluster is the one that they join.
            instance_type: Type of every node, such as `p5.48xlarge`.
            software: What applies the objects, after the chart of Karpenter; you apply `objects` if left out.
            instance_tags: Tags of instances, volumes and interfaces, besides `Name`; none if left out. Tags of the app
                do not reach what Karpenter makes.
            options: Those of `EksGpuNodeGroupProps`; all but the size may be left out.

        Raises:
            ConfigError: Those of `EksGpuNodeGroup`; GPU-K8S-001, GPU-EKS-060 to -064 and -067.
        """
        super().__init__(scope, construct_id)
        cluster = karpenter.cluster
        fleet, group = self._decide(cluster, instance_type, options)
        plan = fleet.plan
        report(
            self,
            [*plan.findings, *group.findings, *check_karpenter(plan, group), *check_managed_options(options)],
        )
        # Of their own: where the group was a managed one before, its nodes keep their role until they are drained, and
        # EKS made the access entry of that one.
        access = Construct(self, "Pool")
        user_data, nodes_need = self._prepare(cluster, fleet, group, options, cluster_tag=_CLUSTER_TAG, access=access)
        added = plan.request.profile.added_user_data_bytes(own_image=False)
        report(self, check_user_data(user_data, added_bytes=added, not_secret=options.get("not_secret", ())))
        self.security_groups: list[ec2.ISecurityGroup] = [
            *([self.fabric] if self.fabric else []),
            *self._groups(cluster, options),
        ]
        self.cfn_instance_profile: iam.CfnInstanceProfile = iam.CfnInstanceProfile(
            self, "InstanceProfile", roles=[self.role.role_name]
        )
        self.node_pool: NodePool = replace(group.pool, scales=not is_static(plan))
        self._name = karpenter_name(group)
        volume = options.get("root_volume") or RootVolume()
        if volume.encryption_key is not None:
            karpenter.let_use_key(volume.encryption_key)
        parts = NodeClassParts(
            subnet_ids=[id_of(subnet) for subnet in fleet.subnets],
            security_group_ids=[id_of_group(one) for one in self.security_groups],
            instance_profile_name=self.cfn_instance_profile.ref,
            user_data=user_data,
            reservation_id=fleet.capacity.terms.reservation_id,
            placement_group_name=None if self.placement_group is None else name_of(self.placement_group),
            size_gib=volume.size_gib,
            iops=volume.iops,
            throughput_mib_per_s=volume.throughput_mib_per_s,
            encryption_key_arn=None if volume.encryption_key is None else volume.encryption_key.key_arn,
            metadata_hop_limit=options.get("metadata_hop_limit", 1),
            tags={**(instance_tags or {}), "Name": path_of(self)},
        )
        overlay = gpu_node_overlay(plan, group)
        self.objects: list[KubernetesObject] = [
            gpu_node_class(plan, group, parts),
            gpu_node_pool(plan, group),
            *([] if overlay is None else [overlay]),
        ]
        join_stores(self, plan, options.get("mounts") or {}, self.security_groups[0], subnets=fleet.subnets)
        self.prerequisites: list[IDependable] = [
            *nodes_need,
            *cluster.node_prerequisites,
            *(egress_dependency(subnet) for subnet in fleet.subnets),
            karpenter.admit(self.role),
            self.cfn_instance_profile,
            karpenter,
        ]
        self.manifest: eks.KubernetesManifest | None = None
        if software is not None:
            self.manifest = software.apply(cdk.Names.node_unique_id(self.node), self.objects)
            self.manifest.node.add_dependency(*self.prerequisites)
        self.alarms: NodeAlarms | None = self._raise_alarms(plan, options.get("alarms", AlarmSettings()))

    @property
    def fleet_name(self) -> str:
        """Name of the node pool."""
        return self._name

    @property
    def _node_security_groups(self) -> list[ec2.ISecurityGroup]:
        return self.security_groups

    @property
    def _instance_tags(self) -> Mapping[str, str]:
        return {_POOL_TAG: self._name}
