"""Placement groups: which strategy a type and a fleet can use."""

from __future__ import annotations

from enum import Enum

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding, Severity, define_rule

_GUIDE = 'AWS EC2 user guide, "Placement groups" (stored copy of 2026)'

STRATEGY_OF_TYPE = define_rule(
    "GPU-PLC-001",
    "the type supports the placement strategy",
    source="EC2 DescribeInstanceTypes, PlacementGroupInfo.SupportedStrategies",
)
PARTITION_COUNT = define_rule("GPU-PLC-002", "a partition group has 1 to 7 partitions", source=_GUIDE)
SPREAD_SIZE = define_rule(
    "GPU-PLC-003", "a spread group runs at most 7 instances per Availability Zone", source=_GUIDE
)
EFA_APART = define_rule("GPU-PLC-004", "nodes that exchange EFA traffic stand close together", source=_GUIDE)

CLUSTER_ZONES = define_rule("GPU-PLC-005", "a cluster group lies in one Availability Zone", source=_GUIDE)
ONE_PLACEMENT = define_rule(
    "GPU-PLC-006",
    "a fleet has one placement: a strategy or an existing group",
    source="EC2 takes one placement group per instance",
)

EFA_TOGETHER = define_rule(
    "GPU-PLC-007",
    "nodes with EFA stand in a cluster placement group, or in reserved capacity",
    source='AWS EC2 user guide, "Placement strategies"; aws/aws-parallelcluster, EfaPlacementGroupValidator',
)

MAX_PARTITIONS = 7
MAX_SPREAD_INSTANCES_PER_ZONE = 7


class PlacementStrategy(str, Enum):
    """How a fleet is placed in the user's own words: EC2's strategies, or no placement group at all."""

    CLUSTER = "cluster"
    SPREAD = "spread"
    PARTITION = "partition"
    NONE = "none"


def check_placement(
    instance_type: InstanceType,
    strategy: PlacementStrategy,
    *,
    node_count: int | None = None,
    efa: bool = False,
    zone_count: int = 1,
) -> list[Finding]:
    """Find what is wrong with putting nodes of a type into a placement group.

    Args:
        instance_type: The type of every node.
        strategy: The group's strategy.
        node_count: Number of nodes, None if unknown.
        efa: Whether the nodes exchange EFA traffic.
        zone_count: Availability Zones that the nodes spread over.
    """
    if strategy is PlacementStrategy.NONE:
        return []
    findings = []
    supported = instance_type.placement_strategies
    if supported is not None and strategy.value not in supported:
        findings.append(
            STRATEGY_OF_TYPE.finding(
                cause=f"{instance_type.name} does not support this placement strategy",
                got=strategy.value,
                allowed=", ".join(sorted(supported)),
                fix="choose a supported strategy, or none",
            )
        )
    limit = MAX_SPREAD_INSTANCES_PER_ZONE * zone_count
    if strategy is PlacementStrategy.SPREAD and node_count is not None and node_count > limit:
        findings.append(
            SPREAD_SIZE.finding(
                cause="a spread placement group cannot run that many instances",
                got=f"{node_count} nodes in {zone_count} Availability Zone(s)",
                allowed=f"at most {limit}",
                fix="use a partition group, more zones, or no placement group",
            )
        )
    if strategy is PlacementStrategy.CLUSTER and zone_count > 1:
        findings.append(
            CLUSTER_ZONES.finding(
                cause="a cluster placement group cannot span Availability Zones",
                got=f"{zone_count} zones",
                allowed="subnets of one zone",
                fix="choose subnets of one zone, or another strategy",
            )
        )
    if efa and strategy is not PlacementStrategy.CLUSTER:
        findings.append(
            EFA_APART.finding(
                cause="this strategy puts nodes apart that exchange EFA traffic",
                got=strategy.value,
                allowed="cluster",
                fix="use cluster, or switch EFA off for this fleet",
                severity=Severity.WARNING,
            )
        )
    return findings


def check_group_of_reservation(instance_type: InstanceType) -> list[Finding]:
    """Find a type of which no reservation can have been made in a placement group: only a cluster group holds one.

    Args:
        instance_type: The type of every node.
    """
    supported = instance_type.placement_strategies
    if supported is None or PlacementStrategy.CLUSTER.value in supported:
        return []
    return [
        STRATEGY_OF_TYPE.finding(
            cause="no reservation of this type was made in a placement group: only a cluster group holds one",
            got=instance_type.name,
            allowed="a type that a cluster placement group takes",
            fix="leave the placement group out, or choose another type",
            path="placement_group",
        )
    ]


def check_efa_together(*, efa: bool, is_placed: bool, is_reserved: bool, node_count: int) -> list[Finding]:
    """Find nodes that exchange EFA traffic, and that nothing keeps close together.

    Args:
        efa: Whether the nodes have EFA.
        is_placed: Whether they stand in a placement group.
        is_reserved: Whether they are launched into a reservation, which lies where it lies.
        node_count: Most nodes: one has nobody to be close to.
    """
    if not efa or is_placed or is_reserved or node_count <= 1:
        return []
    return [
        EFA_TOGETHER.finding(
            cause="nodes that exchange EFA traffic may land far apart in the zone, which slows every collective "
            "operation",
            got="no placement group",
            allowed=PlacementStrategy.CLUSTER.value,
            fix="leave the placement out: such nodes get a cluster group by themselves; or acknowledge this",
            severity=Severity.WARNING,
        )
    ]


def check_partition_count(partition_count: int) -> list[Finding]:
    """Find what is wrong with a number of partitions."""
    if 1 <= partition_count <= MAX_PARTITIONS:
        return []
    return [
        PARTITION_COUNT.finding(
            cause="a partition placement group cannot have that many partitions",
            got=str(partition_count),
            allowed=f"1 to {MAX_PARTITIONS} per Availability Zone",
            fix="choose a number in the range",
        )
    ]
