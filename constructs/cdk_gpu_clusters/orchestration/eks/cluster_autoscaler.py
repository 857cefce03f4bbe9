"""What the Cluster Autoscaler needs of an account, to size managed node groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import ClusterConstruct, arn_of, partition_of, path_of, region_of, report, stack_of
from cdk_gpu_clusters._template import allow
from cdk_gpu_clusters.kubernetes.software import ChartRelease, ImageMirror
from cdk_gpu_clusters.kubernetes.software.node_scaling import (
    AUTOSCALER_ACCOUNT,
    AUTOSCALER_NAMESPACE,
    cluster_autoscaler_chart,
    scale_from_zero_labels,
    scale_from_zero_tags,
)
from cdk_gpu_clusters.orchestration.eks.add_ons import pod_principal
from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
from cdk_gpu_clusters.orchestration.eks.node_group import EksGpuNodeGroup
from cdk_gpu_clusters.orchestration.eks.software import KubernetesSoftware
from cdk_gpu_clusters.rules.node_group import check_autoscaled

# Tags that EKS gives the Auto Scaling group of a managed node group (kubernetes/autoscaler @ 55c37cd,
# cluster-autoscaler/cloudprovider/aws/aws_manager.go, extractLabelsFromAsg, which reads both).
_CLUSTER_TAG, _GROUP_TAG = "eks:cluster-name", "eks:nodegroup-name"

_RIGHTS = AcceptedFinding(
    cause="`ClusterAutoscaler`: policy of its pod",
    reason="Descriptions have no resource level. EKS makes the names of Auto Scaling groups and ids of node groups. "
    "A condition limits changes to groups of the cluster.",
    aws_solutions=("IAM5",),
)


class ClusterAutoscaler(ClusterConstruct):
    """What the Cluster Autoscaler needs to size managed node groups with bounds, from zero on; and its chart.

    Makes a role that its pod takes by EKS Pod Identity. Gives the node groups the tags and the label by which it knows
    their nodes before there is one. `install` installs the chart.

    It finds the given groups and no others. Nodes with pods of jobs stay: it ends nodes that were empty for ten
    minutes.

    Source: kubernetes/autoscaler @ 55c37cd, cluster-autoscaler/cloudprovider/aws/README.md: permissions, and discovery
    by tags (read 2026-11-27).

    Example:
        >>> from cdk_gpu_clusters import ClusterAutoscaler, EksGpuCluster
        >>> cluster = EksGpuCluster(stack, "Bounded", vpc=two_zone_vpc)
        >>> jobs = cluster.add_gpu_node_group(
        ...     "Jobs", instance_type="g6e.xlarge", min_node_count=0, max_node_count=8
        ... )
        >>> autoscaler = ClusterAutoscaler(stack, "Autoscaler", cluster=cluster, groups=[jobs])
        >>> autoscaler.release.chart
        'cluster-autoscaler'

    Attributes:
        role: Role of its pod.
        release: Its chart, for who installs it otherwise: a pod that starts before this construct is complete has no
            role.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: IEksGpuCluster,
        groups: Sequence[EksGpuNodeGroup],
        mirror: ImageMirror | None = None,
        node_group_names: Sequence[str] | None = None,
    ) -> None:
        """Define the role, and tag the groups.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster.
            groups: Node groups with bounds, which it sizes.
            mirror: Registries of a closed network, which hold copies of chart and image.
            node_group_names: Names of the groups in their order, where these are in other stacks that publish them:
                CloudFormation would refuse to replace a group whose name another stack imports. Those of `groups` if
                left out.

        Raises:
            ConfigError: GPU-EKS-068.
        """
        super().__init__(scope, construct_id)
        report(self, check_autoscaled({path_of(one): one.plan.keeps_size for one in groups}))
        self.role: iam.Role = iam.Role(
            self,
            "Role",
            assumed_by=pod_principal(cluster, namespace=AUTOSCALER_NAMESPACE, service_account=AUTOSCALER_ACCOUNT),
        )
        self._allow(cluster)
        eks.CfnPodIdentityAssociation(
            self,
            "PodIdentity",
            cluster_name=cluster.cluster_name,
            namespace=AUTOSCALER_NAMESPACE,
            service_account=AUTOSCALER_ACCOUNT,
            role_arn=self.role.role_arn,
        )
        for group in groups:
            _describe_nodes(group)
        names = [one.node_group_name for one in groups] if node_group_names is None else node_group_names
        self.release: ChartRelease = cluster_autoscaler_chart(
            cluster_name=cluster.cluster_name,
            groups=[{_CLUSTER_TAG: cluster.cluster_name, _GROUP_TAG: name} for name in names],
            region=region_of(stack_of(self)),
            mirror=mirror,
        )

    def install(self, software: KubernetesSoftware) -> eks.HelmChart:
        """Install the chart, after its role and the association of the role with its pod.

        EKS gives a pod its role as the pod is made: a pod that was there before stays without one.

        Args:
            software: What installs it.
        """
        return software.install(self.release, after=[self])

    def _allow(self, cluster: IEksGpuCluster) -> None:
        stack = stack_of(self)
        region, account = region_of(stack), stack.account
        groups = f"arn:{partition_of(stack)}:autoscaling:{region}:{account}:autoScalingGroup:*:autoScalingGroupName/*"
        node_groups = arn_of(self, "eks", f"nodegroup/{cluster.cluster_name}/*/*")
        own = {"StringEquals": {f"aws:ResourceTag/{_CLUSTER_TAG}": cluster.cluster_name}}
        statements = [
            allow(
                "*",
                "autoscaling:DescribeAutoScalingGroups",
                "autoscaling:DescribeAutoScalingInstances",
                "autoscaling:DescribeLaunchConfigurations",
                "autoscaling:DescribeScalingActivities",
                "ec2:DescribeImages",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplateVersions",
                "ec2:GetInstanceTypesFromInstanceRequirements",
            ),
            allow(node_groups, "eks:DescribeNodegroup"),
            {
                **allow(groups, "autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"),
                "Condition": own,
            },
        ]
        document = iam.PolicyDocument.from_json({"Version": "2012-10-17", "Statement": statements})
        policy = iam.ManagedPolicy(self, "Policy", document=document, roles=[self.role])
        _RIGHTS.at(policy, *(named_resource(policy, one) for one in ("*", node_groups, groups)))


def _describe_nodes(group: EksGpuNodeGroup) -> None:
    """Tell what the nodes of a group have, before there is one."""
    group.node_pool = replace(group.node_pool, scales=True)
    resource = group.cfn_nodegroup
    for name, value in scale_from_zero_tags(group.node_pool).items():
        resource.tags.set_tag(name, value)
    if scale_from_zero_labels(group.node_pool):
        resource.labels = {**group.labels, **scale_from_zero_labels(group.node_pool)}
