"""Faults in compute node groups of AWS PCS, which no construct of ours makes."""

from __future__ import annotations

from rule_mutation import RuleMutation

RULES = (
    "GPU-EFA-022",
    "GPU-EFA-023",
    "GPU-EFA-024",
    "GPU-PCS-011",
    "GPU-PCS-012",
    "GPU-PCS-013",
    "GPU-PCS-014",
    "GPU-PCS-015",
    "GPU-PCS-016",
)

MUTATIONS = tuple(
    RuleMutation(rule=rule, template="everywhere/everything_on", example=True) for rule in RULES
)
