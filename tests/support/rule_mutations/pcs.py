"""Faults in compute node groups of AWS PCS, which no construct of ours makes."""

from __future__ import annotations

from rule_mutation import RuleMutation

RULES = (
    "GPU-EFA-022",
    "GPU-EFA-023",
    "GPU-EFA-024",
    "GPU-PCS-001",
    "GPU-PCS-002",
    "GPU-PCS-003",
    "GPU-PCS-004",
    "GPU-PCS-005",
    "GPU-PCS-006",
)

MUTATIONS = tuple(
    RuleMutation(rule=rule, template="everywhere/everything_on", example=True) for rule in RULES
)
