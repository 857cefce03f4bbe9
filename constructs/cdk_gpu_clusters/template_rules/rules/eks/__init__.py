"""EKS: clusters, managed node groups, and what these ask of a launch template."""

from cdk_gpu_clusters.template_rules.rules.eks import (
    ami_type,
    audit_logs,
    capacity_type,
    cluster_group,
    custom_image,
    disk_and_access,
    left_to_eks,
    offered_version,
    one_place_for_types,
    public_endpoint,
    secrets_key,
    user_data_archive,
)

RULES = (
    ami_type.RULE,
    audit_logs.RULE,
    capacity_type.RULE,
    cluster_group.RULE,
    custom_image.RULE,
    disk_and_access.RULE,
    left_to_eks.RULE,
    offered_version.RULE,
    one_place_for_types.RULE,
    public_endpoint.RULE,
    secrets_key.RULE,
    user_data_archive.RULE,
)
