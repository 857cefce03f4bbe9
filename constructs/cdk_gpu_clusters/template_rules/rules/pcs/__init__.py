"""AWS PCS: compute node groups, and what they ask of a launch template."""

from cdk_gpu_clusters.template_rules.rules.pcs import (
    block_type,
    cluster_size,
    no_efa_only,
    one_interface_per_card,
    own_subnet,
    pcs_device_index,
    pcs_user_data,
    purchase_option,
    role_name,
)

RULES = (
    block_type.RULE,
    cluster_size.RULE,
    no_efa_only.RULE,
    one_interface_per_card.RULE,
    own_subnet.RULE,
    pcs_device_index.RULE,
    pcs_user_data.RULE,
    purchase_option.RULE,
    role_name.RULE,
)
