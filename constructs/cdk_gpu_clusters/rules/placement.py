"""Placement groups: which strategy a type and a fleet can use, and which group a fleet's nodes join."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.capacity import CapacityDecision, CapacityKind, PlacementUse

_GUIDE = 'AWS EC2 user guide, "Placement groups" (stored copy of 2026)'

STRATEGY_OF_TYPE = define_rule(
    "GPU-PLC-001",
    "the type supports the placement strategy",
    source="EC2 DescribeInstanceTypes, PlacementGroupInfo.SupportedStrategies",
)
PARTITION_COUNT = define_rule("GPU-PLC-002", "a partition group has 1 to 7 partitions", source=_GUIDE)
SPREAD_SIZE = define_rule("GPU-PLC-003", "a spread group runs at most 7 instances per Availability Zone", source=_GUIDE)
EFA_APART = define_rule("GPU-PLC-004", "nodes that exchange EFA traffic are placed close together", source=_GUIDE)

CLUSTER_ZONES = define_rule("GPU-PLC-005", "a cluster placement group is in one Availability Zone", source=_GUIDE)
ONE_PLACEMENT = define_rule(
    "GPU-PLC-006",
    "a fleet has one placement: a strategy or an existing group",
    source="EC2 takes one placement group per instance",
)

EFA_TOGETHER = define_rule(
    "GPU-PLC-007",
    "nodes with EFA are in a cluster placement group or in reserved capacity",
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


@check
def check_placement(
    instance_type: InstanceType,
    strategy: PlacementStrategy,
    *,
    node_count: int | None = None,
    efa: bool = False,
    zone_count: int = 1,
) -> Iterator[Finding]:
    """Find what is wrong with putting nodes of a type into a placement group.

    Args:
        instance_type: The type of every node.
        strategy: The group's strategy.
        node_count: Number of nodes, None if unknown.
        efa: Whether the nodes exchange EFA traffic.
        zone_count: Availability Zones that the nodes spread over.
    """
    if strategy is PlacementStrategy.NONE:
        return
    supported = instance_type.placement_strategies
    if supported is not None and strategy.value not in supported:
        yield STRATEGY_OF_TYPE.finding(
            cause=f"{instance_type.name} does not support this placement strategy",
            got=strategy.value,
            allowed=", ".join(sorted(supported)),
            fix="choose a supported strategy, or none",
        )
    limit = MAX_SPREAD_INSTANCES_PER_ZONE * zone_count
    if strategy is PlacementStrategy.SPREAD and node_count is not None and node_count > limit:
        yield SPREAD_SIZE.finding(
            cause="a spread placement group cannot run that many instances",
            got=f"{node_count} nodes in {zone_count} Availability Zone(s)",
            allowed=f"at most {limit}",
            fix="use a partition group, more zones, or no placement group",
        )
    if strategy is PlacementStrategy.CLUSTER and zone_count > 1:
        yield CLUSTER_ZONES.finding(
            cause="a cluster placement group cannot span Availability Zones",
            got=f"{zone_count} zones",
            allowed="subnets of one zone",
            fix="choose subnets of one zone, or another strategy",
        )
    if efa and strategy is not PlacementStrategy.CLUSTER:
        yield EFA_APART.finding(
            cause="this strategy puts nodes apart that exchange EFA traffic",
            got=strategy.value,
            allowed="cluster",
            fix="use cluster, or switch EFA off for this fleet",
            severity=Severity.WARNING,
        )


@check
def check_group_of_reservation(instance_type: InstanceType) -> Iterator[Finding]:
    """Find a type of which no reservation can have been made in a placement group: only a cluster group holds one."""
    supported = instance_type.placement_strategies
    if supported is not None and PlacementStrategy.CLUSTER.value not in supported:
        yield STRATEGY_OF_TYPE.finding(
            cause="no reservation of this type was made in a placement group: only a cluster group holds one",
            got=instance_type.name,
            allowed="a type that a cluster placement group takes",
            fix="leave the placement group out, or choose another type",
            path="placement_group",
        )


@check
def check_efa_together(*, efa: bool, is_placed: bool, is_reserved: bool, node_count: int) -> Iterator[Finding]:
    """Find nodes that exchange EFA traffic, and that nothing keeps close together.

    Args:
        efa: Whether the nodes have EFA.
        is_placed: Whether they are in a placement group.
        is_reserved: Whether they are launched into a reservation, which lies where it lies.
        node_count: Maximum number of nodes; placement does not matter to a single one.
    """
    if efa and not is_placed and not is_reserved and node_count > 1:
        yield EFA_TOGETHER.finding(
            cause="nodes that exchange EFA traffic may land far apart in the zone, which slows every collective "
            "operation",
            got="no placement group",
            allowed=PlacementStrategy.CLUSTER.value,
            fix="leave the placement out: such nodes get a cluster group by themselves; or acknowledge this",
            severity=Severity.WARNING,
        )


@check
def check_partition_count(partition_count: int) -> Iterator[Finding]:
    """Find what is wrong with a number of partitions."""
    if not 1 <= partition_count <= MAX_PARTITIONS:
        yield PARTITION_COUNT.finding(
            cause="a partition placement group cannot have that many partitions",
            got=str(partition_count),
            allowed=f"1 to {MAX_PARTITIONS} per Availability Zone",
            fix="choose a number in the range",
        )


class GroupOrigin(str, Enum):
    """Where a fleet's placement group comes from."""

    NONE = "none"
    NEW = "new"
    GIVEN = "given"
    RESERVATION = "of the reservation"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementChoice:
    """The placement group of a fleet.

    Attributes:
        origin: Where it comes from.
        strategy: Strategy of a group that is to be made, or that a reservation was made in; None for no group, and for
            a given one.
        reason: Why, in a sentence for a person.
    """

    origin: GroupOrigin
    strategy: PlacementStrategy | None
    reason: str


def choose_placement(
    decision: CapacityDecision,
    *,
    requested: PlacementStrategy | None = None,
    is_given: bool = False,
    has_reservation_group: bool = False,
) -> PlacementChoice:
    """Choose the placement group of a fleet. What EC2 would refuse is for `check_capacity` and `check_placement`.

    Args:
        decision: What follows from the capacity.
        requested: The requested strategy; None if it is left open.
        is_given: Whether an existing group is given.
        has_reservation_group: Whether the reservation was made in a group: a cluster group, as no other holds one.

    Example:
        >>> from cdk_gpu_clusters.rules.capacity import CapacityTerms, decide_capacity
        >>> spot = decide_capacity(CapacityTerms(kind=CapacityKind.SPOT), efa=True)
        >>> choose_placement(spot).reason
        'cluster placement group: nodes exchange EFA traffic'
    """
    if requested is PlacementStrategy.NONE:
        return _none("no placement group, as asked for")
    if is_given:
        return PlacementChoice(origin=GroupOrigin.GIVEN, strategy=None, reason="the placement group that was given")
    if has_reservation_group and requested in (None, PlacementStrategy.CLUSTER):
        return PlacementChoice(
            origin=GroupOrigin.RESERVATION,
            strategy=PlacementStrategy.CLUSTER,
            reason="the placement group that the reservation was made in: another one loses reserved nodes",
        )
    if requested is not None:
        return _new(requested, f"{requested.value} placement group, as asked for")
    if decision.placement is PlacementUse.OWN:
        return _new(PlacementStrategy.CLUSTER, decision.placement_reason)
    if decision.placement is PlacementUse.RESERVATION:
        return _none("no placement group: the reservation was made in none")
    return _none(decision.placement_reason)


def reservation_is_placed(requested: PlacementStrategy | None, *, efa: bool) -> bool:
    """Whether a new reservation for a fleet is made inside a cluster placement group.

    Args:
        requested: The requested strategy; None if it is left open.
        efa: Whether the nodes exchange EFA traffic.
    """
    return efa if requested is None else requested is PlacementStrategy.CLUSTER


def spread_of_servers(
    instance_type: InstanceType, kind: CapacityKind, *, node_count: int, zone_count: int
) -> PlacementStrategy | None:
    """How nodes of model servers are placed where the user leaves it open: apart, if EC2 can hold that many apart.

    Args:
        instance_type: Type of the nodes.
        kind: How they are bought: reserved capacity lies where it lies.
        node_count: Most nodes.
        zone_count: Availability Zones of the nodes.

    Returns:
        `SPREAD`, or None to leave it to the capacity.
    """
    if kind.is_reserved or "spread" not in (instance_type.placement_strategies or ()):
        return None
    fits = 0 < node_count <= MAX_SPREAD_INSTANCES_PER_ZONE * zone_count
    return PlacementStrategy.SPREAD if fits else None


def _none(reason: str) -> PlacementChoice:
    return PlacementChoice(origin=GroupOrigin.NONE, strategy=None, reason=reason)


def _new(strategy: PlacementStrategy, reason: str) -> PlacementChoice:
    return PlacementChoice(origin=GroupOrigin.NEW, strategy=strategy, reason=reason)
