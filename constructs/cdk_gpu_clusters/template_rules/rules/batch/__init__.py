"""AWS Batch: compute environments and multi-node parallel jobs."""

from cdk_gpu_clusters.template_rules.rules.batch import (
    efa_device,
    efa_not_spot,
    gpu_image,
    gpus_of_type,
    node_ranges,
    one_type_per_job,
    one_type_per_range,
)

RULES = (
    efa_device.RULE,
    efa_not_spot.RULE,
    gpu_image.RULE,
    gpus_of_type.RULE,
    node_ranges.RULE,
    one_type_per_job.RULE,
    one_type_per_range.RULE,
)
