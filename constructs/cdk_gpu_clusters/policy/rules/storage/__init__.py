"""Storage: FSx for Lustre, its clients and its data repositories."""

from cdk_gpu_clusters.policy.rules.storage import keep_file_system, lustre_capacity

RULES = (
    keep_file_system.RULE,
    lustre_capacity.RULE,
)
