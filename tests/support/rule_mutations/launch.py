"""Faults in launch templates."""

from __future__ import annotations

from mutations import put
from rule_mutation import RuleMutation

TEMPLATE = "AWS::EC2::LaunchTemplate"
EVERYTHING = "everywhere/everything_on"

MUTATIONS = (
    RuleMutation(
        rule="GPU-LT-010",
        template=EVERYTHING,
        at=TEMPLATE,
        change=put("LaunchTemplateData.MetadataOptions.HttpTokens", "optional"),
    ),
    RuleMutation(
        rule="GPU-INST-001",
        template="g6-dev-node/dev-fleet-dev",
        at=TEMPLATE,
        change=put("LaunchTemplateData.InstanceType", "g6.3xlarge"),
    ),
)
