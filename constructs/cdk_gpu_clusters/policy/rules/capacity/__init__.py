"""Capacity: reservations, Capacity Blocks, spot, placement."""

from cdk_gpu_clusters.policy.rules.capacity import block_placement, market_type

RULES = (
    block_placement.RULE,
    market_type.RULE,
)
