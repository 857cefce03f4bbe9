"""Cost: tags, what is paid for twice, what is left behind."""

from cdk_gpu_clusters.template_rules.rules.cost import (
    left_volumes,
    s3_endpoint,
    tagged_nodes,
    volume_type,
)

RULES = (
    left_volumes.RULE,
    s3_endpoint.RULE,
    tagged_nodes.RULE,
    volume_type.RULE,
)
