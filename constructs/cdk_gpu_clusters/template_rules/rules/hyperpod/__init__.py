"""SageMaker HyperPod: instance groups and their network."""

from cdk_gpu_clusters.template_rules.rules.hyperpod import (
    efa_of_type,
    efa_traffic,
    eks_network,
    lifecycle_bucket,
    ml_type,
    node_recovery,
    one_lifecycle_script,
    one_zone,
    type_or_requirements,
)

RULES = (
    efa_of_type.RULE,
    efa_traffic.RULE,
    eks_network.RULE,
    lifecycle_bucket.RULE,
    ml_type.RULE,
    node_recovery.RULE,
    one_lifecycle_script.RULE,
    one_zone.RULE,
    type_or_requirements.RULE,
)
