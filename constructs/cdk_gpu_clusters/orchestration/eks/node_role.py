"""The role of nodes of Amazon EKS."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IDependable

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import partition_of, region_of, stack_of
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.compute.node_asset import NodeAsset
from cdk_gpu_clusters.compute.node_records import NodeEvidence
from cdk_gpu_clusters.compute.node_role import NodeRole, allow_node

# Amazon EKS user guide, "Amazon EKS node IAM role" (read 2026-11-22). What the VPC CNI needs, it has itself, by Pod
# Identity: AWS advises against giving it to every pod of the node.
_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
_CNI_POLICY = "AmazonEKS_CNI_Policy"

#: Tag by which an instance of a managed node group names its cluster.
CLUSTER_TAG = "eks:cluster-name"

_EKS_POLICIES = AcceptedFinding(
    cause="`EksNodeRole`: the AWS managed policies that EKS asks for",
    reason="AWS keeps what kubelet needs to join its cluster and to pull images in these policies.",
    aws_solutions=("IAM4",),
)


_END_OF_NODES = AcceptedFinding(
    cause="`EksGpuNodeGroup`: permissions of its nodes",
    reason="A node that fails its first boot ends itself; conditions limit the action to the calling instance, whose "
    "id is unknown before.",
    aws_solutions=("IAM5",),
)


class EksNodeRole(NodeRole):
    """A role with what EKS asks of its nodes, and Systems Manager sessions.

    It does not hold `AmazonEKS_CNI_Policy`, which the VPC CNI of an `EksGpuCluster` has by Pod Identity. Where the CNI
    of a cluster has no role of its own, it takes that of its node, and without the policy no node becomes Ready.

    Example:
        >>> role = EksNodeRole(stack, "EksNodeRole")
    """

    def __init__(self, scope: Construct, construct_id: str, *, cni_from_node_role: bool = False) -> None:
        """Define the role.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cni_from_node_role: Whether the VPC CNI of the cluster works with this role.
        """
        names = (*_POLICIES, _CNI_POLICY) if cni_from_node_role else _POLICIES
        policies = [iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in names]
        super().__init__(scope, construct_id, policies=policies)
        _EKS_POLICIES.at(self, *(f"Policy::arn:<AWS::Partition>:iam::aws:policy/{name}" for name in names))


def allow_nodes(
    scope: Construct,
    role: iam.IRole,
    asset: NodeAsset,
    update_policy: UpdatePolicy,
    log_group: logs.ILogGroup,
    evidence: NodeEvidence | None,
    *,
    cluster_name: str,
    name_tag: str,
    cluster_tag: str = CLUSTER_TAG,
    access: Construct | None = None,
) -> list[IDependable]:
    """Let the nodes of a group fetch their software, log, leave evidence, and end after a failed first boot.

    Args:
        scope: The node group.
        role: Role of its nodes.
        asset: Their software.
        update_policy: Whether the group follows its launch template; if not, later nodes, too, start from the one that
            it was made with.
        log_group: Their log group.
        evidence: Where they leave evidence, if anywhere.
        cluster_name: Cluster of the group.
        name_tag: `Name` of its nodes.
        cluster_tag: Tag by which an instance names its cluster.
        access: Construct below which the policies are; the node group if left out.

    Returns:
        What a node's first boot needs.
    """
    asset.read_policy.attach_to_role(role)
    stack = stack_of(scope)
    nodes = f"arn:{partition_of(stack)}:ec2:{region_of(stack)}:{stack.account}:instance/*"
    # Service authorization reference, "Amazon EC2": ec2:InstanceID is the instance that the action is on, and
    # ec2:SourceInstanceARN the one that calls.
    itself = nodes.replace("*", "${ec2:InstanceID}")
    end = {
        "Effect": "Allow",
        "Action": "ec2:TerminateInstances",
        "Resource": nodes,
        "Condition": {
            "StringEquals": {f"aws:ResourceTag/{cluster_tag}": cluster_name, "aws:ResourceTag/Name": name_tag},
            "ArnEquals": {"ec2:SourceInstanceARN": itself},
        },
    }
    policy = allow_node(access or scope, role, log_group=log_group, evidence=evidence, statements=[end])
    _END_OF_NODES.at(policy, named_resource(policy, nodes))
    found: list[IDependable] = [asset.read_policy, policy]
    if update_policy is UpdatePolicy.NEVER_REPLACE:
        found.append(asset.allow_earlier(scope, role, access=access))
    return found
