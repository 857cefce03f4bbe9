"""EFA: interfaces, cards, groups."""

from cdk_gpu_clusters.policy.rules.efa import card_exists, efa_total, public_ip, self_egress, self_ingress

RULES = (
    card_exists.RULE,
    efa_total.RULE,
    public_ip.RULE,
    self_egress.RULE,
    self_ingress.RULE,
)
