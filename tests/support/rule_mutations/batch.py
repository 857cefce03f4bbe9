"""Faults in jobs and environments of AWS Batch, which no construct of ours makes."""

from __future__ import annotations

from rule_mutation import RuleMutation

RULES = tuple(f"GPU-BAT-{number:03}" for number in range(1, 7))

MUTATIONS = tuple(
    RuleMutation(rule=rule, template="everywhere/everything_on", example=True) for rule in RULES
)
