"""EKS: managed node groups, and what they ask of a launch template."""

from cdk_gpu_clusters.policy.rules.eks import (
    ami_type,
    capacity_type,
    cluster_group,
    custom_image,
    disk_and_access,
    left_to_eks,
    one_place_for_types,
    user_data_archive,
)

RULES = (
    ami_type.RULE,
    capacity_type.RULE,
    cluster_group.RULE,
    custom_image.RULE,
    disk_and_access.RULE,
    left_to_eks.RULE,
    one_place_for_types.RULE,
    user_data_archive.RULE,
)
