"""The role of nodes of Amazon EKS."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters.compute.node_role import NodeRole

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
        _EKS_POLICIES.at(
            self, *(f"Policy::arn:<AWS::Partition>:iam::aws:policy/{name}" for name in _POLICIES)
        )
