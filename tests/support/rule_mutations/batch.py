"""Faults in jobs and environments of AWS Batch, which no construct of ours makes."""

from __future__ import annotations

from rule_mutation import RuleMutation

RULES = (
    "GPU-BAT-001",
    "GPU-BAT-002",
    "GPU-BAT-003",
    "GPU-BAT-004",
    "GPU-BAT-005",
    "GPU-BAT-006",
    "GPU-BAT-007",
)

MUTATIONS = tuple(
    RuleMutation(rule=rule, template="everywhere/everything_on", example=True) for rule in RULES
)
