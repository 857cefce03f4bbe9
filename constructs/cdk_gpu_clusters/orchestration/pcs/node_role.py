"""The role of nodes of AWS PCS, and their instance profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._cdk import arn_of
from cdk_gpu_clusters._template import allow
from cdk_gpu_clusters.compute.node_asset import NodeAsset
from cdk_gpu_clusters.compute.node_records import NodeEvidence
from cdk_gpu_clusters.compute.node_role import NodeRole, allow_node

#: AWS PCS user guide, "IAM instance profiles for AWS Parallel Computing Service": this path, or a name that begins with
#: AWSPCS. Its examples have the path on the profile, too.
PCS_PATH = "/aws-pcs/"


class PcsNodeRole(NodeRole):
    """A role that AWS PCS accepts for its nodes, with Systems Manager sessions.

    It has the path `/aws-pcs/`. A `PcsNodeGroup` or `PcsLoginNodes` adds what its nodes need: above all
    `pcs:RegisterComputeNodeGroupInstance` on its own cluster, and no other.

    Example:
        >>> role = PcsNodeRole(stack, "PcsNodeRole")
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        """Define the role.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
        """
        super().__init__(scope, construct_id, path=PCS_PATH)


def instance_profile(scope: Construct, role: iam.IRole) -> iam.CfnInstanceProfile:
    """The instance profile of the nodes of a group.

    Args:
        scope: The node group.
        role: Role of its nodes.
    """
    return iam.CfnInstanceProfile(scope, "InstanceProfile", roles=[role.role_name], path=PCS_PATH)


def allow_pcs_nodes(
    scope: Construct,
    role: iam.IRole,
    *,
    cluster_arn: str,
    assets: Sequence[NodeAsset],
    log_group: logs.ILogGroup,
    evidence: NodeEvidence | None,
    secret: str | None = None,
) -> iam.ManagedPolicy:
    """Let the nodes of a group join their cluster, fetch their software and scripts, log, and leave evidence.

    Source: service authorization reference, "AWS Parallel Computing Service":
    RegisterComputeNodeGroupInstance takes the cluster as its resource.

    Args:
        scope: The node group.
        role: Role of its nodes.
        cluster_arn: Their cluster.
        assets: What they fetch.
        log_group: Their log group.
        evidence: Where they leave evidence, if anywhere.
        secret: Name or ARN of the secret with the password of their directory, if they have one.

    Returns:
        What a node's first boot needs.
    """
    statements: list[Mapping[str, Any]] = [allow(cluster_arn, "pcs:RegisterComputeNodeGroupInstance")]
    statements += [one for asset in assets for one in asset.read_statements]
    if secret is not None:
        # A name lacks the six characters that Secrets Manager adds to its ARN (Secrets Manager user guide, "What's in a
        # Secrets Manager secret?").
        is_arn = cdk.Token.is_unresolved(secret) or secret.startswith("arn:")
        place = secret if is_arn else arn_of(scope, "secretsmanager", f"secret:{secret}-??????")
        statements.append(allow(place, "secretsmanager:GetSecretValue"))
    return allow_node(scope, role, log_group=log_group, evidence=evidence, statements=statements)
