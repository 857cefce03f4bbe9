"""A group of GPU nodes that Amazon EKS manages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import arn_of, partition_of, path_of, report, stack_of
from cdk_gpu_clusters._template import Resources
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.compute.alarms import NodeAlarms
from cdk_gpu_clusters.compute.fleet_mounts import join_stores
from cdk_gpu_clusters.compute.fleet_network import egress_dependency, id_of
from cdk_gpu_clusters.compute.launch_template import GpuLaunchTemplate
from cdk_gpu_clusters.compute.reconcile import (
    BEFORE_GROUP,
)
from cdk_gpu_clusters.compute.root_volume import allow_auto_scaling
from cdk_gpu_clusters.fleet.node_group import NodeGroupPlan
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.orchestration.eks.nodes import EksGpuNodeGroupProps, EksNodes, JoinedCluster
from cdk_gpu_clusters.orchestration.eks.reconcile import node_group_calls
from cdk_gpu_clusters.rules.fleet import AlarmSettings
from cdk_gpu_clusters.rules.interfaces import Orchestrator
from cdk_gpu_clusters.rules.node_group import CAPACITY_TYPES, NodeRepair

if TYPE_CHECKING:
    from cdk_gpu_clusters.catalogue import InstanceType

_EFFECTS = {"NoSchedule": "NO_SCHEDULE", "PreferNoSchedule": "PREFER_NO_SCHEDULE", "NoExecute": "NO_EXECUTE"}


_RECONCILE = AcceptedFinding(
    cause="`EksGpuNodeGroup`: policy of the state machine that keeps paid capacity filled",
    reason="Log delivery, tracing, metrics and descriptions have no resource level, and the ARN of the node group "
    "holds an id that only EKS knows.",
    aws_solutions=("IAM5",),
)


class EksGpuNodeGroup(EksNodes):
    """Nodes of one type in a cluster of Amazon EKS: one managed node group on a `GpuLaunchTemplate`.

    What a `GpuFleet` is on plain EC2, with the same node software and rules. Makes the launch template, the node group,
    a role, a log group, and, where none is given, an EFA security group and a cluster placement group; for a Capacity
    Block also the state machine that grows the group.

    * A node that does not get through its boot never starts kubelet, and takes no work.
    * On reserved capacity, and on capacity with an end, a state machine keeps a group of a fixed size filled.
    * A new launch-template version never replaces running nodes unless you set `update_policy`.
    * Reserved capacity, and types that EC2 sells as Capacity Blocks, are updated terminate-before-launch
      (`UpdateStrategy` MINIMAL).
    * Other hardware is another group: instance type, capacity, interfaces, placement. EKS changes none in place.

    Example:
        >>> cluster = EksGpuCluster.from_eks_gpu_cluster_attributes(
        ...     stack, "Research", vpc=vpc, cluster_name="research", cluster_security_group_id="sg-0123456789abcdef0",
        ...     kubernetes_version="1.34",
        ... )
        >>> trainers = EksGpuNodeGroup(
        ...     stack, "EksTrainers", cluster=cluster, vpc_subnets=ec2.SubnetSelection(subnets=[gpu_subnet]),
        ...     instance_type="p5.48xlarge", node_count=16,
        ...     capacity=Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z"),
        ... )

    Attributes:
        plan: What was decided about the group as about every fleet: type, interfaces, placement, size.
        launch_template: The launch template construct.
        fabric: Security group in which the nodes exchange EFA traffic, None without EFA.
        placement_group: Placement group of the nodes, None where the capacity forbids or needs none.
        role: Role of the nodes.
        log_group: Boot events of the nodes, one stream per instance.
        node_asset: Software of the nodes in S3.
        node_pool: The group as manifests know it.
        labels: Labels of the nodes.
        taints: Taints of the nodes.
        alarms: The alarms, whose recipients `alarms.add_topic` sets; None if there are none.
        cfn_nodegroup: The node group, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: JoinedCluster,
        instance_type: str | ec2.InstanceType,
        **options: Unpack[EksGpuNodeGroupProps],
    ) -> None:
        """Define the node group.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster that the nodes join: an `EksGpuCluster`, or an imported one.
            instance_type: Type of every node, such as `p5.48xlarge`.
            options: Those of `EksGpuNodeGroupProps`; all but the size may be left out.

        Raises:
            ConfigError: GPU-FLT-001 to -005, GPU-EKS-003, -004 and -040 to -047, GPU-MNT-001 to -003; faults of type,
                capacity, interfaces and MIG.
        """
        super().__init__(scope, construct_id)
        fleet, group = self._decide(cluster, instance_type, options)
        plan, root_volume = fleet.plan, options.get("root_volume")
        report(self, [*plan.findings, *group.findings])
        user_data, nodes_need = self._prepare(cluster, fleet, group, options)
        if root_volume and root_volume.encryption_key:
            allow_auto_scaling(root_volume.encryption_key)
        self.launch_template: GpuLaunchTemplate = GpuLaunchTemplate(
            self,
            f"LaunchTemplate{group.hardware}",
            instance_type=plan.instance_type.name,
            orchestrator=Orchestrator.EKS_MANAGED,
            fabric=self.fabric,
            security_groups=self._groups(cluster, options),
            placement_group=self.placement_group,
            root_volume=root_volume,
            name_tag=path_of(self),
            metadata_hop_limit=options.get("metadata_hop_limit", 1),
            user_data=user_data,
            not_secret=options.get("not_secret", ()),
            _resolved=fleet,
        )
        join_stores(
            self, plan, options.get("mounts") or {}, self.launch_template.security_groups[0], subnets=fleet.subnets
        )
        ways_out = [egress_dependency(subnet) for subnet in fleet.subnets]
        self.cfn_nodegroup: eks.CfnNodegroup = managed_nodes(
            self,
            f"Resource{group.hardware}",
            cluster=cluster,
            role_arn=self.role.role_arn,
            subnet_ids=[id_of(subnet) for subnet in fleet.subnets],
            template=self.launch_template.cfn_launch_template,
            plan=plan,
            group=group,
            release_version=options.get("release_version"),
            needs=[*nodes_need, *cluster.node_prerequisites, *ways_out],
        )
        settings = options.get("alarms", AlarmSettings())
        # EKS makes the name of the group, and the policy must not wait for it.
        group_arns = arn_of(self, "eks", f"nodegroup/{cluster.cluster_name}/*/*")
        reconcile: Resources = {}
        log_key = options.get("log_encryption_key")
        if plan.windows and plan.keeps_size:
            reconcile = self._reconcile(
                fleet,
                node_group_calls(partition_of(stack_of(self)), group_arns),
                self.cfn_nodegroup,
                windows=plan.windows,
                raises_alarms=settings is not None,
                log_key_arn=None if log_key is None else log_key.key_arn,
            )
        self.alarms: NodeAlarms | None = self._watch(
            plan,
            settings,
            reconcile,
            self.cfn_nodegroup,
            accepted=_RECONCILE,
            group_arns=group_arns,
            before=BEFORE_GROUP,
        )

    @property
    def node_group_name(self) -> str:
        """Name of the node group, known at deployment."""
        return self.cfn_nodegroup.attr_nodegroup_name

    @property
    def fleet_name(self) -> str:
        """Name of the node group, as `node_group_name`."""
        return self.node_group_name

    @property
    def _instance_tags(self) -> Mapping[str, str]:
        # EKS may tag an instance with these two keys as it launches it (AWS managed policy reference,
        # AWSServiceRoleForAmazonEKSNodegroup, v11), and users see both on their nodes (eksctl-io/eksctl, issue 2607).
        return {
            "eks:nodegroup-name": self.node_group_name,
            "eks:cluster-name": self.cfn_nodegroup.attr_cluster_name,
        }


def managed_nodes(
    scope: Construct,
    construct_id: str,
    *,
    cluster: JoinedCluster,
    role_arn: str,
    subnet_ids: Sequence[str],
    template: ec2.CfnLaunchTemplate,
    plan: FleetPlan,
    group: NodeGroupPlan,
    release_version: str | None,
    needs: Sequence[IDependable],
) -> eks.CfnNodegroup:
    """Define the node group, as the resource that CloudFormation takes; ids may be tokens.

    It has no name of its own, no disk size, no remote access and no instance types: the name and the types change only
    with the entire group, and EKS takes the others from the launch template.

    EKS keeps every node of a group on one version of the template, and replaces all when it changes. So a group whose
    nodes are never replaced stays on the default version, which CloudFormation leaves alone (AWS::EC2::LaunchTemplate
    reference, DefaultVersionNumber), and on the Kubernetes version that the cluster had when the group was made.
    """
    rolls = group.request.rolls
    sizes = {"minSize": plan.minimum, "maxSize": plan.maximum, "desiredSize": group.desired_size}
    # Dictionaries in camel case, which CDK passes on as given.
    made = eks.CfnNodegroup(
        scope,
        construct_id,
        cluster_name=cluster.cluster_name,
        node_role=role_arn,
        subnets=list(subnet_ids),
        ami_type=group.ami_type,
        capacity_type=CAPACITY_TYPES[plan.terms.kind].value,
        launch_template={
            "id": template.ref,
            "version": template.attr_latest_version_number if rolls else template.attr_default_version_number,
        },
        version=cluster.kubernetes_version if rolls else None,
        release_version=release_version,
        scaling_config=sizes,
        update_config={
            "maxUnavailable": group.request.max_unavailable,
            "updateStrategy": group.update_strategy.value,
        },
        node_repair_config=_repair(group.request.repair, plan.instance_type),
        labels=dict(group.pool.labels),
        taints=[
            {"key": taint.key, "value": taint.value, "effect": _EFFECTS[taint.effect]} for taint in group.pool.taints
        ]
        or None,
    )
    made.node.add_dependency(*needs)
    scope.node.default_child = made
    return made


def _repair(repair: NodeRepair, instance_type: InstanceType) -> dict[str, Any]:
    if not repair.enabled:
        return {"enabled": False}
    limits = {
        "maxUnhealthyNodeThresholdPercentage": repair.max_unhealthy_percentage,
        "maxParallelNodesRepairedCount": repair.max_parallel_count,
    }
    overrides = [
        {
            "nodeMonitoringCondition": one.condition,
            "nodeUnhealthyReason": one.reason,
            "minRepairWaitTimeMins": one.wait_minutes,
            "repairAction": one.action.value,
        }
        for one in repair.overrides_for(instance_type)
    ]
    return {
        "enabled": True,
        **{name: value for name, value in limits.items() if value is not None},
        **({"nodeRepairConfigOverrides": overrides} if overrides else {}),
    }
