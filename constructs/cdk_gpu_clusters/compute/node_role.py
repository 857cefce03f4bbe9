"""The role of GPU nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import cached_per_construct, stack_of
from cdk_gpu_clusters._template import Resource, allow, managed_policy
from cdk_gpu_clusters.compute.node_records import NodeEvidence, accept_records, logging_statements
from cdk_gpu_clusters.rules.node_role import SESSION_ACTIONS

_SESSIONS = AcceptedFinding(
    cause="`NodeRole`: policy of Systems Manager sessions",
    reason="The actions that carry sessions, which replace SSH, have no resource level. The one that registers a node "
    "takes its instance, whose id is unknown before.",
    aws_solutions=("IAM5",),
)
_OWN_GROUP = (
    "autoscaling:CompleteLifecycleAction",
    "autoscaling:RecordLifecycleActionHeartbeat",
    "autoscaling:SetInstanceHealth",
)
_PEERS = (
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeAutoScalingInstances",
    "autoscaling:DescribeScalingActivities",
    "ec2:DescribeInstanceTopology",
    "ec2:DescribeInstances",
)


class NodeRole(iam.Role):
    """A role with Systems Manager sessions and no more; a fleet attaches its own policy to it.

    There is no SSH and no key pair: people reach a node through Systems Manager.

    Example:
        >>> role = NodeRole(stack, "Role")
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        policies: Sequence[iam.IManagedPolicy] = (),
        path: str | None = None,
    ) -> None:
        """Define the role.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            policies: Further policies that it has from the start.
            path: Path of its name, such as `/aws-pcs/`; `/` if left out. A change replaces the role.
        """
        super().__init__(
            scope,
            construct_id,
            path=path,
            assumed_by=_ec2(),
            managed_policies=[_session_policy(stack_of(scope)), *policies],
        )


@cache
def _ec2() -> iam.IPrincipal:
    return iam.ServicePrincipal("ec2.amazonaws.com")


@cached_per_construct
def _session_policy(stack: cdk.Stack) -> iam.ManagedPolicy:
    """What SSM Agent needs for sessions: one policy for all roles of a stack."""
    document = iam.PolicyDocument.from_json({"Statement": [allow("*", *SESSION_ACTIONS)]})
    policy = iam.ManagedPolicy(stack, "GpuNodeSessions", document=document)
    _SESSIONS.at(policy, "Resource::*")
    return policy


def profile_resource(role_name: str) -> Resource:
    """The instance profile of a role as a template has it."""
    return {"Type": "AWS::IAM::InstanceProfile", "Properties": {"Roles": [role_name]}}


def permissions_resource(
    *,
    group_arn: str,
    logging: Sequence[Mapping[str, Any]],
    role_name: str,
    evidence: Sequence[Mapping[str, Any]] = (),
    jobs: Sequence[Mapping[str, Any]] = (),
) -> Resource:
    """What lets the nodes of a fleet complete the hooks of their own group, leave it, find their peers, and log.

    It is not a part of the role: several fleets may share one. It does not name the group by `Ref`: the group waits for
    it, so that no node boots before it is attached, or drains after it is detached.

    Args:
        group_arn: The ARNs that the Auto Scaling group can have.
        logging: What lets its nodes log.
        role_name: Role of the nodes.
        evidence: What lets its nodes leave evidence.
        jobs: What lets its nodes read which job they run.
    """
    statements = [
        allow(group_arn, *_OWN_GROUP),
        allow("*", *_PEERS),
        *logging,
        *evidence,
        *jobs,
    ]
    policy = managed_policy(role_name, statements)
    # What earlier templates have: without these, CloudFormation would replace a policy in use.
    policy["Properties"] |= {"Description": "", "Path": "/"}
    return policy


def grant_before(role: iam.IRole, group: IConstruct) -> None:
    """Let a group wait for what grants gave to the role of its nodes.

    The grants are then there before the first boot, and until the last node has drained: CloudFormation deletes in the
    reverse order. They must not name the group.

    Args:
        role: Role of the nodes.
        group: What starts them.
    """
    policy = role.node.try_find_child("DefaultPolicy")
    if policy is not None:
        group.node.add_dependency(policy)


def allow_node(
    scope: Construct,
    role: iam.IRole,
    *,
    log_group: logs.ILogGroup,
    evidence: NodeEvidence | None = None,
    statements: Sequence[Mapping[str, Any]] = (),
) -> iam.ManagedPolicy:
    """Let nodes log, and leave evidence: what those need that another orchestrator launches.

    Args:
        scope: Construct of the nodes.
        role: Their role.
        log_group: Their log group.
        evidence: Where they leave evidence, if anywhere.
        statements: What else they may do.
    """
    bundles = [] if evidence is None else evidence.statements()
    logging = logging_statements(scope, log_group)
    document = iam.PolicyDocument.from_json({"Statement": [*logging, *bundles, *statements]})
    policy = iam.ManagedPolicy(scope, "NodePermissions", roles=[role], document=document)
    accept_records(policy, log_group, evidence)
    return policy
