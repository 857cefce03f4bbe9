"""The role of GPU nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import arn_of
from cdk_gpu_clusters.compute.node_evidence import NodeEvidence

_SESSION_POLICY = "AmazonSSMManagedInstanceCore"

_SESSIONS = AcceptedFinding(
    cause="`NodeRole`: the AWS managed policy `AmazonSSMManagedInstanceCore`",
    reason="AWS keeps the permissions of Systems Manager sessions, which replace SSH, in this policy.",
    aws_solutions=("IAM4",),
)
_PEERS = AcceptedFinding(
    cause="`GpuFleet`: policy of the nodes",
    reason="The describe actions that find a node's peers, and how many were replaced, have no resource level, and "
    "the ARN of the fleet's own group holds an id that only EC2 knows.",
    aws_solutions=("IAM5",),
)


_OWN_GROUP = (
    "autoscaling:CompleteLifecycleAction",
    "autoscaling:RecordLifecycleActionHeartbeat",
    "autoscaling:SetInstanceHealth",
)


class NodeRole(iam.Role):
    """A role with Systems Manager sessions and no more; a fleet attaches its own policy to it (`allow_fleet`).

    There is no SSH and no key pair: people reach a node through Systems Manager.

    Example:
        >>> role = NodeRole(stack, "Role")
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, policies: Sequence[iam.IManagedPolicy] = ()
    ) -> None:
        """Define the role.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            policies: Further policies that it has from the start.
        """
        super().__init__(
            scope,
            construct_id,
            assumed_by=_ec2(),
            managed_policies=[_session_policy(), *policies],
        )
        _SESSIONS.at(self, f"Policy::arn:<AWS::Partition>:iam::aws:policy/{_SESSION_POLICY}")


@cache
def _ec2() -> iam.IPrincipal:
    return iam.ServicePrincipal("ec2.amazonaws.com")


@cache
def _session_policy() -> iam.IManagedPolicy:
    return iam.ManagedPolicy.from_aws_managed_policy_name(_SESSION_POLICY)


def allow_fleet(
    scope: Construct,
    role: iam.IRole,
    *,
    group_name: str,
    log_group: logs.ILogGroup,
    evidence: NodeEvidence | None = None,
) -> iam.ManagedPolicy:
    """Let the nodes of a fleet complete the hooks of their own group, leave it, find their peers, and log.

    Args:
        scope: The fleet. The policy stands there, not under the role: the group's launch template needs the role,
            and the policy needs the group; and several fleets may share a role.
        role: Role of the nodes.
        group_name: Name of the Auto Scaling group.
        log_group: Log group of the fleet.
        evidence: Where its nodes leave evidence, if anywhere.
    """
    group_arn = arn_of(scope, "autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{group_name}")
    peers = [
        "autoscaling:DescribeAutoScalingInstances",
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeScalingActivities",
        "ec2:DescribeInstances",
        "ec2:DescribeInstanceTopology",
    ]
    # As one document: statements would cost a message each.
    document = iam.PolicyDocument.from_json(
        {
            "Statement": [
                _allow(group_arn, *_OWN_GROUP),
                _allow("*", *peers),
                *_logging(log_group, evidence),
            ]
        }
    )
    # A managed policy: the packs of NIST, HIPAA and PCI accept no inline ones.
    policy = iam.ManagedPolicy(scope, "NodePermissions", roles=[role], document=document)
    _PEERS.at(policy, "Resource::*", named_resource(scope, group_arn))
    if evidence is not None:
        evidence.accept_at(policy)
    return policy


def allow_node(
    scope: Construct, role: iam.IRole, *, log_group: logs.ILogGroup, evidence: NodeEvidence | None = None
) -> iam.ManagedPolicy:
    """Let nodes log, and leave evidence: what those need that another orchestrator launches.

    Args:
        scope: Construct of the nodes.
        role: Their role.
        log_group: Their log group.
        evidence: Where they leave evidence, if anywhere.
    """
    document = iam.PolicyDocument.from_json({"Statement": _logging(log_group, evidence)})
    policy = iam.ManagedPolicy(scope, "NodePermissions", roles=[role], document=document)
    if evidence is not None:
        evidence.accept_at(policy)
    return policy


def _logging(log_group: logs.ILogGroup, evidence: NodeEvidence | None) -> list[dict[str, Any]]:
    own = _allow(log_group.log_group_arn, "logs:CreateLogStream", "logs:PutLogEvents")
    return [own, *([] if evidence is None else evidence.statements())]


def _allow(resource: str, *actions: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource}
