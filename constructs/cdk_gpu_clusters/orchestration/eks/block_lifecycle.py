"""Growing a node group of Amazon EKS when its Capacity Block is delivered."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters.compute.block_lifecycle import BlockFollower, GroupCalls, sdk_call
from cdk_gpu_clusters.rules.capacity import BlockWindow

# `Ref` of a node group, and its id in CloudFormation's events, is `<cluster>/<node group>` (AWS::EKS::Nodegroup
# reference, Return values).
_NAMES = {
    "ClusterName.$": "States.ArrayGetItem(States.StringSplit($.group, '/'), 0)",
    "NodegroupName.$": "States.ArrayGetItem(States.StringSplit($.group, '/'), 1)",
}


class EksBlockLifecycle(BlockFollower):
    """Sets the size of a managed node group at the start of its Capacity Block; deployments never do.

    CloudFormation names no Auto Scaling group of a node group, so the size is set by `eks:UpdateNodegroupConfig`.
    Makes a Step Functions state machine without code of its own, and rules that start it:

    * EC2 reports that the block is delivered: the group grows, if it is empty;
    * a backup schedule at the start, which names month, day and hour; the state machine checks the year;
    * the group was created: it grows at once if its block runs, and is set to no nodes if not, since it is unknown how
      many nodes EKS starts a group with whose template names no desired size.

    EKS itself sets the group to zero 40 minutes before the end, by a scheduled action that AWS asks to leave alone.
    Nothing here drains: the nodes end their work by themselves at the same time (`GPU_DRAIN_AT`).

    Source: Amazon EKS user guide, "Create a managed node group with Capacity Blocks for ML" (read 2026-11-22).

    Example:
        >>> from aws_cdk import aws_eks_v2 as eks
        >>> from cdk_gpu_clusters.rules.capacity import CapacityTerms, block_window
        >>> block = Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z")
        >>> lifecycle = EksBlockLifecycle(
        ...     stack,
        ...     "EksBlock",
        ...     group=eks.CfnNodegroup(
        ...         stack,
        ...         "NodesOfOnesOwn",
        ...         cluster_name="research",
        ...         node_role="arn:aws:iam::111122223333:role/nodes",
        ...         subnets=["subnet-0123456789abcdef0"],
        ...     ),
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
        group: eks.CfnNodegroup,
        window: BlockWindow,
        reservation_id: str | None,
        node_count: int,
        log_group: logs.ILogGroup,
    ) -> None:
        """Define the state machine and its rules.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            group: The node group; its template carries no `DesiredSize`.
            window: When the group may have nodes.
            reservation_id: `cr-…` of the block, to follow its events; None to go by the clock alone.
            node_count: Size during the block.
            log_group: Where the state machine logs.
        """
        super().__init__(
            scope,
            construct_id,
            group=group,
            window=window,
            reservation_id=reservation_id,
            node_count=node_count,
            log_group=log_group,
            calls=GroupCalls(look=_look(), resize=_resize, drains=False, starts_empty=False),
        )
        self._allow(
            [
                iam.PolicyStatement(
                    actions=["eks:DescribeNodegroup", "eks:UpdateNodegroupConfig"], resources=[group.attr_arn]
                )
            ]
        )


def _look() -> dict[str, Any]:
    return {
        "Resource": sdk_call("eks", "describeNodegroup"),
        "Parameters": _NAMES,
        "ResultSelector": {"desired.$": "$.Nodegroup.ScalingConfig.DesiredSize"},
    }


def _resize(desired: int) -> dict[str, Any]:
    return {
        "Resource": sdk_call("eks", "updateNodegroupConfig"),
        "Parameters": {**_NAMES, "ScalingConfig": {"DesiredSize": desired}},
    }
