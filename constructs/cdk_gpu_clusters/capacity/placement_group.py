"""Placement groups for GPU nodes."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._cdk import arn_of, cached_per_construct, report
from cdk_gpu_clusters.rules.placement import PlacementStrategy, check_partition_count

_STRATEGIES = {
    PlacementStrategy.CLUSTER: ec2.PlacementGroupStrategy.CLUSTER,
    PlacementStrategy.SPREAD: ec2.PlacementGroupStrategy.SPREAD,
    PlacementStrategy.PARTITION: ec2.PlacementGroupStrategy.PARTITION,
}


class ClusterPlacementGroup(ec2.PlacementGroup):
    """A placement group for the nodes of a cluster: close together by default.

    Makes one `AWS::EC2::PlacementGroup`. CloudFormation chooses its name: the resource type has no name property.
    It is an ordinary `ec2.PlacementGroup`; an existing one comes in by `ec2.PlacementGroup.from_placement_group_name`.

    It takes no tags: CloudFormation replaces a placement group whose tags change, and with it a reservation that was
    made in it.

    Source: AWS EC2 user guide, "Placement groups"; CloudFormation schema of 2026-10-20 (Tags are create-only). Limits
    are in `cdk_gpu_clusters.rules.placement`.

    Example:
        >>> group = ClusterPlacementGroup(stack, "Placement")
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        strategy: PlacementStrategy = PlacementStrategy.CLUSTER,
        partition_count: int | None = None,
    ) -> None:
        """Define the group.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            strategy: `CLUSTER` packs nodes close together in one Availability Zone; `SPREAD` puts each on its own
                rack, at most 7 per zone; `PARTITION` keeps groups of nodes apart.
            partition_count: Number of partitions, 1 to 7; 2 for `PARTITION` if left out, and only for it.

        Raises:
            ConfigError: GPU-PLC-002 if the number of partitions is out of range.
        """
        partitions = None
        if strategy is PlacementStrategy.PARTITION:
            partitions = 2 if partition_count is None else partition_count
        super().__init__(scope, construct_id, strategy=_STRATEGIES[strategy], partitions=partitions)
        if partition_count is not None:
            report(self, check_partition_count(partition_count))
        self.placement_strategy: PlacementStrategy = strategy
        resource = self.node.default_child
        if isinstance(resource, ec2.CfnPlacementGroup):
            resource.add_property_deletion_override("Tags")


def strategy_of(placement_group: ec2.IPlacementGroup) -> PlacementStrategy:
    """The strategy of a placement group; `CLUSTER` for an imported one that does not say."""
    if isinstance(placement_group, ClusterPlacementGroup):
        return placement_group.placement_strategy
    for strategy, name in _STRATEGIES.items():
        if placement_group.strategy is name:
            return strategy
    return PlacementStrategy.CLUSTER


@cached_per_construct
def name_of(placement_group: ec2.IPlacementGroup) -> str:
    """The name of a placement group, known at deployment if it is made here."""
    return placement_group.placement_group_name


def placement_group_arn(scope: Construct, placement_group: ec2.IPlacementGroup) -> str:
    """The ARN of a placement group in the scope's Region and account, which its resource does not return."""
    return arn_of(scope, "ec2", f"placement-group/{name_of(placement_group)}")
