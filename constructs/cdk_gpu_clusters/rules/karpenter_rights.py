"""What Karpenter's controller may do in an account.

Source: aws/karpenter-provider-aws @ 1d92708 (v1.14.1), website/content/en/v1.14/getting-started/
getting-started-with-karpenter/cloudformation.yaml, which a test compares statement by statement. Read 2026-11-27.

Left out of it: changes of instance profiles, which node classes of this library do not need because they name one, and
for which IAM has no endpoint in a closed network; and the reading of zonal shifts, which the chart does not enable.

Left out, too, is `ec2:DescribeInstanceStatus`. With it, the controller ends a node without a drain after two minutes of
an impaired status check, and drains one as soon as EC2 announces maintenance for a later day. Neither budgets nor
`expireAfter` hold that back. Without it, the controller logs the refusal, and asks no more until it restarts. Source:
aws/karpenter-provider-aws @ bde0065 (v1.14.1), pkg/providers/instancestatus/instancestatus.go, UnhealthyThreshold;
pkg/controllers/interruption/utils.go, actionForMessage, and instancestatus_controller.go, Reconcile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Statement = dict[str, Any]

_LAUNCHED = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
_OF_POOL = {"aws:ResourceTag/karpenter.sh/nodepool": "*"}
_OF_REQUESTED_POOL = {"aws:RequestTag/karpenter.sh/nodepool": "*"}
_DESCRIBED = (
    "CapacityReservations",
    "Images",
    "Instances",
    "InstanceTypeOfferings",
    "InstanceTypes",
    "LaunchTemplates",
    "PlacementGroups",
    "SecurityGroups",
    "SpotPriceHistory",
    "Subnets",
)


def controller_statements(
    *, partition: str, region: str, account: str, cluster_name: str, queue_arn: str
) -> list[Statement]:
    """The statements of the controller's policies. All values but the name of the cluster may be CDK tokens.

    Args:
        partition: Partition of the account.
        region: Region of the cluster.
        account: Account of the cluster.
        cluster_name: Name of the cluster, which is a part of keys of conditions.
        queue_arn: ARN of the queue of notices.
    """
    ec2 = f"arn:{partition}:ec2:{region}"
    cluster = f"arn:{partition}:eks:{region}:{account}:cluster/{cluster_name}"
    return [
        *_launch_statements(ec2, cluster_name),
        *_change_statements(ec2, cluster_name),
        _allow("AllowAPIServerEndpointDiscovery", "eks:DescribeCluster", cluster),
        _allow(
            "AllowInterruptionQueueActions",
            ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
            queue_arn,
        ),
        _allow(
            "AllowRegionalReadActions",
            [f"ec2:Describe{one}" for one in _DESCRIBED],
            "*",
            {"StringEquals": {"aws:RequestedRegion": region}},
        ),
        _allow("AllowSSMReadActions", "ssm:GetParameter", f"arn:{partition}:ssm:{region}::parameter/aws/service/*"),
        _allow("AllowPricingReadActions", "pricing:GetProducts", "*"),
        _allow("AllowUnscopedInstanceProfileListAction", "iam:ListInstanceProfiles", "*"),
        _allow(
            "AllowInstanceProfileReadActions",
            "iam:GetInstanceProfile",
            f"arn:{partition}:iam::{account}:instance-profile/*",
        ),
    ]


def pass_role_statement(role_arns: Sequence[str]) -> Statement:
    """What lets the controller launch nodes with some roles.

    Args:
        role_arns: Roles of nodes.
    """
    return _allow(
        "AllowPassingInstanceRole",
        "iam:PassRole",
        list(role_arns),
        {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
    )


def _launch_statements(ec2: str, cluster_name: str) -> list[Statement]:
    run = ["ec2:RunInstances", "ec2:CreateFleet"]
    placed = ("security-group", "subnet", "capacity-reservation", "placement-group")
    return [
        _allow(
            "AllowScopedEC2InstanceAccessActions",
            run,
            [f"{ec2}::image/*", f"{ec2}::snapshot/*", *(f"{ec2}:*:{one}/*" for one in placed)],
        ),
        _allow(
            "AllowScopedEC2LaunchTemplateAccessActions",
            run,
            f"{ec2}:*:launch-template/*",
            {"StringEquals": _owned("Resource", cluster_name), "StringLike": _OF_POOL},
        ),
        _allow(
            "AllowScopedEC2InstanceActionsWithTags",
            [*run, "ec2:CreateLaunchTemplate"],
            [f"{ec2}:*:{one}/*" for one in _LAUNCHED],
            {"StringEquals": _requested(cluster_name), "StringLike": _OF_REQUESTED_POOL},
        ),
        _allow(
            "AllowScopedResourceCreationTagging",
            "ec2:CreateTags",
            [f"{ec2}:*:{one}/*" for one in _LAUNCHED],
            {
                "StringEquals": {
                    **_requested(cluster_name),
                    "ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"],
                },
                "StringLike": _OF_REQUESTED_POOL,
            },
        ),
    ]


def _change_statements(ec2: str, cluster_name: str) -> list[Statement]:
    return [
        _allow(
            "AllowScopedResourceTagging",
            "ec2:CreateTags",
            f"{ec2}:*:instance/*",
            {
                "StringEquals": _owned("Resource", cluster_name),
                "StringLike": _OF_POOL,
                "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": cluster_name},
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
                },
            },
        ),
        _allow(
            "AllowScopedDeletion",
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            [f"{ec2}:*:instance/*", f"{ec2}:*:launch-template/*"],
            {"StringEquals": _owned("Resource", cluster_name), "StringLike": _OF_POOL},
        ),
    ]


def _owned(kind: str, cluster_name: str) -> dict[str, str]:
    return {f"aws:{kind}Tag/kubernetes.io/cluster/{cluster_name}": "owned"}


def _requested(cluster_name: str) -> dict[str, str]:
    return {**_owned("Request", cluster_name), "aws:RequestTag/eks:eks-cluster-name": cluster_name}


def _allow(sid: str, actions: Any, resources: Any, condition: dict[str, Any] | None = None) -> Statement:
    statement = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
    return statement if condition is None else {**statement, "Condition": condition}
