"""The role of nodes of Amazon EKS."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IDependable

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.compute.node_asset import NodeAsset
from cdk_gpu_clusters.compute.node_records import NodeEvidence
from cdk_gpu_clusters.compute.node_role import NodeRole, allow_node

# Amazon EKS user guide, "Amazon EKS node IAM role" (read 2026-11-22). What the VPC CNI needs, it has itself, by Pod
# Identity: AWS advises against giving it to every pod of the node.
_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")

_EKS_POLICIES = AcceptedFinding(
    cause="`EksNodeRole`: the AWS managed policies that EKS asks for",
    reason="AWS keeps what kubelet needs to join its cluster and to pull images in these policies.",
    aws_solutions=("IAM4",),
)


class EksNodeRole(NodeRole):
    """A role with what EKS asks of its nodes, and Systems Manager sessions.

    It does not hold `AmazonEKS_CNI_Policy`: the VPC CNI has that by Pod Identity in an `EksGpuCluster`. Add it for a
    cluster whose CNI works with the nodes' own role.

    Example:
        >>> role = EksNodeRole(stack, "EksNodeRole")
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        """Define the role.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
        """
        policies = [iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in _POLICIES]
        super().__init__(scope, construct_id, policies=policies)
        _EKS_POLICIES.at(self, *(f"Policy::arn:<AWS::Partition>:iam::aws:policy/{name}" for name in _POLICIES))


def allow_nodes(
    scope: Construct,
    role: iam.IRole,
    asset: NodeAsset,
    update_policy: UpdatePolicy,
    log_group: logs.ILogGroup,
    evidence: NodeEvidence | None,
) -> list[IDependable]:
    """Let the nodes of a group fetch their software, log, and leave evidence.

    Args:
        scope: The node group.
        role: Role of its nodes.
        asset: Their software.
        update_policy: Whether the group follows its launch template; if not, later nodes, too, start from the one that
            it was made with.
        log_group: Their log group.
        evidence: Where they leave evidence, if anywhere.

    Returns:
        What a node's first boot needs.
    """
    asset.read_policy.attach_to_role(role)
    if update_policy is UpdatePolicy.NEVER_REPLACE:
        asset.allow_earlier(scope, role)
    return [asset.read_policy, allow_node(scope, role, log_group=log_group, evidence=evidence)]
