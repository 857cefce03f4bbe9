"""Zones that reserved capacity asks of a fleet."""

from __future__ import annotations

from cdk_gpu_clusters.errors import define_rule

RESERVATION_ZONE = define_rule(
    "GPU-FLT-004",
    "a fleet stands in the zone of its reservation",
    source='AWS EC2 user guide, "On-Demand Capacity Reservations"',
)
RESERVED_ONE_ZONE = define_rule(
    "GPU-FLT-006", "a reserved fleet stands in one zone", source="EC2 Auto Scaling guide, Capacity Blocks"
)
