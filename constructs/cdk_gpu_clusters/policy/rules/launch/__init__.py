"""Launch templates and instances: types, metadata service, volumes, user data."""

from cdk_gpu_clusters.policy.rules.launch import imdsv2, type_exists

RULES = (
    imdsv2.RULE,
    type_exists.RULE,
)
