"""Growing a group when its Capacity Block is delivered, and draining it before the block ends."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import stack_of
from cdk_gpu_clusters.compute.block_follower import BlockFollower, GroupCalls, sdk_call
from cdk_gpu_clusters.rules.capacity import BlockWindow, CapacityTerms, block_window

_RESIZING = AcceptedFinding(
    cause="`CapacityBlockLifecycle`: policy that lets the state machine size its group",
    reason="DescribeAutoScalingGroups has no resource level, and the ARN of the group holds an id that only EC2 knows.",
    aws_solutions=("IAM5",),
)


class CapacityBlockLifecycle(BlockFollower):
    """Sets a group's size at the start and before the end of a Capacity Block; deployments never do.

    Makes a Step Functions state machine without code of its own, and rules that start it:

    * EC2 reports that the block is delivered: the group grows, if it is empty;
    * EC2 warns that the block expires: the group goes to zero;
    * backup schedules at the start and at the drain time. They name month, day and hour, since a one-time schedule in
      the past could not be deployed; the state machine checks the year, and does nothing outside the block's window;
    * the group was created while its block runs: it grows at once, since no delivery event comes any more.

    A group that already has nodes is never resized, so that events that come twice, and an operator's own size, do no
    harm.

    Source: AWS EC2 user guide, "Monitor Capacity Blocks using EventBridge" (event names differ between its editions:
    both are matched); EC2 Auto Scaling guide, "Use Capacity Blocks" (scale to zero more than 30 minutes before).

    Example:
        >>> from cdk_gpu_clusters.rules.capacity import CapacityTerms, block_window
        >>> block = Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z")
        >>> lifecycle = CapacityBlockLifecycle(
        ...     stack,
        ...     "Block",
        ...     group=cfn_group,
        ...     window=block_window(block.terms),
        ...     reservation_id="cr-0123456789abcdef0",
        ...     node_count=16,
        ...     log_group=log_group,
        ... )
        >>> lifecycle.window.drain_at.isoformat()
        '2026-12-15T10:50:00+00:00'

    Attributes:
        state_machine: The state machine.
        window: When the group may have nodes.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        group: autoscaling.CfnAutoScalingGroup,
        window: BlockWindow,
        reservation_id: str | None,
        node_count: int,
        log_group: logs.ILogGroup,
    ) -> None:
        """Define the state machine and its rules.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            group: The group; its template carries no `DesiredCapacity`.
            window: When the group may have nodes.
            reservation_id: `cr-…` of the block, to follow its events; None to go by the clock alone.
            node_count: Size during the block.
            log_group: Where the state machine logs.
        """
        calls = GroupCalls(look=_look(), resize=_resize, drains=True, starts_empty=True)
        super().__init__(
            scope,
            construct_id,
            group=group,
            window=window,
            reservation_id=reservation_id,
            node_count=node_count,
            log_group=log_group,
            calls=calls,
        )
        group_arn = stack_of(self).format_arn(
            service="autoscaling",
            resource=f"autoScalingGroup:*:autoScalingGroupName/{group.ref}",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        policy = self._allow(
            [
                iam.PolicyStatement(actions=["autoscaling:SetDesiredCapacity"], resources=[group_arn]),
                iam.PolicyStatement(actions=["autoscaling:DescribeAutoScalingGroups"], resources=["*"]),
            ]
        )
        _RESIZING.at(policy, "Resource::*", named_resource(policy, group_arn))


def _look() -> dict[str, Any]:
    return {
        "Resource": sdk_call("autoscaling", "describeAutoScalingGroups"),
        "Parameters": {"AutoScalingGroupNames.$": "States.Array($.group)"},
        "ResultSelector": {"desired.$": "$.AutoScalingGroups[0].DesiredCapacity"},
    }


def _resize(desired: int) -> dict[str, Any]:
    return {
        "Resource": sdk_call("autoscaling", "setDesiredCapacity"),
        "Parameters": {
            "AutoScalingGroupName.$": "$.group",
            "DesiredCapacity": desired,
            "HonorCooldown": False,
        },
    }


def follow_block(
    scope: Construct,
    terms: CapacityTerms,
    *,
    node_count: int,
    group: autoscaling.CfnAutoScalingGroup,
    log_group: logs.ILogGroup,
) -> CapacityBlockLifecycle | None:
    """Let a fleet follow its Capacity Block, if it has one.

    Args:
        scope: The fleet.
        terms: How its nodes are bought; its ids may be tokens.
        node_count: Most nodes.
        group: Its group.
        log_group: Where the state machine logs.
    """
    window = block_window(terms)
    if window is None:
        return None
    return CapacityBlockLifecycle(
        scope,
        "Block",
        group=group,
        window=window,
        reservation_id=terms.reservation_id,
        node_count=node_count,
        log_group=log_group,
    )
