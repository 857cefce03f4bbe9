"""Model servers behind load balancers."""

from cdk_gpu_clusters.template_rules.rules.inference import (
    balancer_zones,
    drain_timeout,
    idle_timeout,
    said_idle_timeout,
    time_to_boot,
    tls,
)

RULES = (
    balancer_zones.RULE,
    drain_timeout.RULE,
    idle_timeout.RULE,
    said_idle_timeout.RULE,
    time_to_boot.RULE,
    tls.RULE,
)
