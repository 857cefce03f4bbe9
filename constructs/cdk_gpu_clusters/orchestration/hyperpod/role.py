"""The execution role of HyperPod nodes, with what they need and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import arn_of, id_of_group, place_of, stack_of
from cdk_gpu_clusters._template import allow
from cdk_gpu_clusters.compute.fleet_network import id_of
from cdk_gpu_clusters.orchestration.hyperpod.folder import LifecycleFolder, log_group_prefix

_POLICY = "AmazonSageMakerClusterInstanceRolePolicy"

# aws/sagemaker-hyperpod-cluster-setup @ b920fcf, slurm/cloudformation/slurm-iam-role-template.yaml and
# eks/cloudformation/sagemaker-iam-role-template.yaml: what AWS's own templates give the role, here for the subnets and
# security groups of the cluster alone.
_MAKE_INTERFACES = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
)
_READ_NETWORK = (
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)
# Without it, scripts of AWS leave Lustre over EFA out: awslabs/awsome-distributed-ai pull request 1202.
_READ_FILE_SYSTEMS = "fsx:DescribeFileSystems"
_POD_INTERFACES = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:AttachNetworkInterface",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:UnassignPrivateIpAddresses",
)
_READ_NODES = ("ec2:DescribeInstanceTypes", "ec2:DescribeInstances", "ec2:DescribeTags")
_PULL_IMAGES = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:GetDownloadUrlForLayer",
)

_LOG = ("logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents")

_OF_SAGEMAKER = AcceptedFinding(
    cause="`HyperPodRole`: the AWS managed policy that HyperPod asks for",
    reason="AWS keeps what the agents of HyperPod need in this policy: metrics, logs of the cluster and sessions.",
    aws_solutions=("IAM4",),
)
_NETWORK = AcceptedFinding(
    cause="`HyperPodCluster`: network interfaces, logs and scripts of its nodes",
    reason="Descriptions have no resource level, EC2 makes the ids of interfaces, a log stream is named after its "
    "node, and a folder of scripts after its contents. Subnets and security groups are those of the cluster.",
    aws_solutions=("IAM5",),
)


class HyperPodRole(iam.Role):
    """A role that SageMaker gives the nodes of a HyperPod cluster.

    It has the managed policy that HyperPod asks for. A `HyperPodCluster` adds what its own network, logs and scripts
    need.

    Source: Amazon SageMaker AI developer guide, "IAM role for SageMaker HyperPod".

    Example:
        >>> role = HyperPodRole(stack, "HyperPodRole")
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        """Define the role.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
        """
        super().__init__(
            scope,
            construct_id,
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(_POLICY)],
        )
        _OF_SAGEMAKER.at(self, f"Policy::arn:<AWS::Partition>:iam::aws:policy/{_POLICY}")


def allow_nodes(
    scope: Construct,
    role: iam.IRole,
    *,
    subnets: Sequence[ec2.ISubnet],
    security_groups: Sequence[ec2.ISecurityGroup],
    eks_cluster_arn: str | None,
    name: str,
) -> iam.ManagedPolicy:
    """Let nodes join their network, and log.

    It is one policy for all groups of a cluster, since a role has ten at most: log groups begin with the name of the
    cluster.

    Args:
        scope: The cluster, or an instance group with a network or a role of its own.
        role: Execution role.
        subnets: Subnets.
        security_groups: Security groups.
        eks_cluster_arn: Cluster of Amazon EKS that the nodes join; None for Slurm.
        name: Name of the cluster, as for `log_group_prefix`.

    Returns:
        What the first node needs.
    """
    interfaces = arn_of(scope, "ec2", "network-interface/*")
    network = [
        interfaces,
        *(arn_of(scope, "ec2", f"subnet/{id_of(subnet)}") for subnet in subnets),
        *(arn_of(scope, "ec2", f"security-group/{id_of_group(group)}") for group in security_groups),
    ]
    partition, region, _ = place_of(stack_of(scope))
    instances = f"arn:{partition}:ec2:{region}:*:instance/*"
    log_groups = arn_of(scope, "logs", f"log-group:{log_group_prefix(name)}*")
    statements: list[dict[str, Any]] = [
        allow(network, *_MAKE_INTERFACES),
        allow("*", *_READ_NETWORK, _READ_FILE_SYSTEMS),
        allow(interfaces, "ec2:CreateTags"),
        # The instances are those of an account of SageMaker.
        allow([interfaces, instances], "ec2:DetachNetworkInterface"),
        # Credentials of HyperPod are no credentials of an instance, whose address other nodes of the library name.
        allow([log_groups, f"{log_groups}:log-stream:*"], *_LOG),
    ]
    stars = [interfaces, instances, log_groups, f"{log_groups}:log-stream:*"]
    if eks_cluster_arn is not None:
        repositories = f"arn:{partition}:ecr:*:*:repository/*"
        stars.append(repositories)
        statements += [
            allow([*network, instances], *_POD_INTERFACES),
            allow("*", *_READ_NODES, "ecr:GetAuthorizationToken"),
            allow(repositories, *_PULL_IMAGES),
            allow(eks_cluster_arn, "eks-auth:AssumeRoleForPodIdentity"),
        ]
    document = iam.PolicyDocument.from_json({"Statement": statements})
    policy = iam.ManagedPolicy(scope, "NodePermissions", roles=[role], document=document)
    _NETWORK.at(policy, "Resource::*", *(named_resource(policy, star) for star in stars))
    return policy


def allow_folders(scope: Construct, role: iam.IRole, folder: LifecycleFolder) -> iam.ManagedPolicy:
    """Let nodes list and read the folders of their cluster.

    Args:
        scope: The cluster, or an instance group with a role of its own.
        role: Execution role.
        folder: One of the folders.

    Returns:
        What the first node needs.
    """
    objects = f"{folder.bucket_arn}/{folder.parent}*"
    statements = [
        allow(objects, "s3:GetObject"),
        {
            **allow(folder.bucket_arn, "s3:ListBucket"),
            "Condition": {"StringLike": {"s3:prefix": [f"{folder.parent}*"]}},
        },
    ]
    document = iam.PolicyDocument.from_json({"Statement": statements})
    policy = iam.ManagedPolicy(scope, "ReadScripts", roles=[role], document=document)
    _NETWORK.at(policy, named_resource(policy, objects))
    return policy


def allow_key(
    scope: Construct, role: iam.IRole, key: kms.IKey, *, construct_id: str = "VolumeKey"
) -> iam.ManagedPolicy:
    """Let SageMaker encrypt volumes of nodes with a key. The policy of the key must leave that to policies of IAM.

    Sources: Amazon SageMaker AI developer guide, "Customer managed AWS KMS key encryption for SageMaker HyperPod"; the
    condition is that of awslabs/awsome-distributed-ai @ 95b939c, hyperpod-eks-tf/modules/sagemaker_iam_role.

    Args:
        scope: The cluster, or an instance group with a role of its own.
        role: Execution role.
        key: The key.
        construct_id: Id in the scope.

    Returns:
        What the first node needs.
    """
    statements = [
        {**allow(key.key_arn, "kms:CreateGrant"), "Condition": {"Bool": {"kms:GrantIsForAWSResource": "true"}}},
        allow(key.key_arn, "kms:DescribeKey"),
    ]
    document = iam.PolicyDocument.from_json({"Statement": statements})
    return iam.ManagedPolicy(scope, construct_id, roles=[role], document=document)
