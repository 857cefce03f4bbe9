"""Capacity: reservations, Capacity Blocks, spot, placement."""

from cdk_gpu_clusters.policy.rules.capacity import (
    block_placement,
    cluster_zone,
    efa_apart,
    efa_together,
    market_type,
    partition_count,
    placement_strategy,
    spread_size,
)

RULES = (
    block_placement.RULE,
    cluster_zone.RULE,
    efa_apart.RULE,
    efa_together.RULE,
    market_type.RULE,
    partition_count.RULE,
    placement_strategy.RULE,
    spread_size.RULE,
)
