"""What nodes beside the fleets cost for an hour, and how long reserved ones are paid for. Decided here once."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.rules.capacity import BlockTerms, CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.cost import Estimate, node_hour
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec

#: Why the hours of a block are unknown.
NO_START = "the block runs already: the file has no starts_at"
_SECONDS_PER_HOUR = 3600
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def system_node_hour(spec: ClusterSpec) -> Estimate:
    """What one node for the software of the cluster costs for an hour."""
    return node_hour(instance_type(spec.eks.system_nodes.instance_type), CapacityKind.ON_DEMAND, region=spec.region)


def login_node_hour(spec: ClusterSpec) -> Estimate:
    """What one login node of AWS PCS costs for an hour."""
    return on_demand_hour(spec.pcs.login.instance_type, spec.region)


def on_demand_hour(kind: str, region: str) -> Estimate:
    """What one node of a type costs for an hour on demand."""
    return node_hour(instance_type(kind), CapacityKind.ON_DEMAND, region=region)


def hours_of_terms(terms: CapacityTerms, node_count: int) -> Fraction | None:
    """Hours of all nodes from the start of their capacity to its end; None if one of them is not set.

    Args:
        terms: How the nodes are bought.
        node_count: Most nodes of the fleet; a block of half of them counts for half of its hours.
    """
    parts = terms.blocks or (terms,)
    if any(part.starts_at is None or part.ends_at is None for part in parts):
        return None
    return Fraction(reserved_node_seconds(terms, node_count), node_count * _SECONDS_PER_HOUR)


def reserved_node_seconds(
    terms: CapacityTerms, node_count: int, *, since: datetime = _FIRST, until: datetime = _LAST
) -> int:
    """Seconds of all nodes between the start and the end of their capacity.

    Args:
        terms: How the nodes are bought. A start or an end that is not set is that of the period.
        node_count: Most nodes of the fleet.
        since: Start of the period.
        until: End of the period.
    """
    seconds = 0
    for part in terms.blocks or (terms,):
        start, end = max(part.starts_at or since, since), min(part.ends_at or until, until)
        nodes = (part.node_count or node_count) if isinstance(part, BlockTerms) else node_count
        seconds += nodes * max(int((end - start).total_seconds()), 0)
    return seconds
