"""Faults in capacity."""

from __future__ import annotations

from mutations import put
from rule_mutation import RuleMutation

TEMPLATE = "AWS::EC2::LaunchTemplate"

MUTATIONS = (
    RuleMutation(
        rule="GPU-CAP-002",
        template="p5-capacity-block/llama-train-fleet-trainers",
        at=TEMPLATE,
        change=put("LaunchTemplateData.Placement", {"GroupName": "close"}),
    ),
    RuleMutation(
        rule="GPU-CAP-030",
        template="p4d-new-reservation/vision-fleet-trainers",
        at=TEMPLATE,
        change=put("LaunchTemplateData.InstanceMarketOptions", {"MarketType": "spot"}),
    ),
)
