"""Cost: tags, what stands unused, what is paid for twice."""

from cdk_gpu_clusters.policy.rules.cost import (
    left_volumes,
    s3_endpoint,
    tagged_nodes,
    unused_reservation,
    volume_type,
)

RULES = (
    left_volumes.RULE,
    s3_endpoint.RULE,
    tagged_nodes.RULE,
    unused_reservation.RULE,
    volume_type.RULE,
)
