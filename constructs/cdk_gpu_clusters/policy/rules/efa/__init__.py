"""EFA: interfaces, cards, groups, zones."""

from cdk_gpu_clusters.policy.rules.efa import (
    card_exists,
    device_in_range,
    efa_total,
    every_efa,
    groups_of_interfaces,
    named_groups,
    no_address_on_efa_only,
    one_efa_per_card,
    one_primary,
    primary_has_ip,
    public_ip,
    self_egress,
    self_ingress,
    type_on_card,
    unique_device,
)

RULES = (
    card_exists.RULE,
    device_in_range.RULE,
    efa_total.RULE,
    every_efa.RULE,
    groups_of_interfaces.RULE,
    named_groups.RULE,
    no_address_on_efa_only.RULE,
    one_efa_per_card.RULE,
    one_primary.RULE,
    primary_has_ip.RULE,
    public_ip.RULE,
    self_egress.RULE,
    self_ingress.RULE,
    type_on_card.RULE,
    unique_device.RULE,
)
