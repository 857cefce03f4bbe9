"""Faults in compute node groups of AWS PCS, which no construct of ours makes."""

from __future__ import annotations

from rule_mutation import RuleMutation

RULES = ("GPU-EFA-022", "GPU-EFA-023", "GPU-EFA-024", *(f"GPU-PCS-{number:03}" for number in range(1, 7)))

MUTATIONS = tuple(
    RuleMutation(rule=rule, template="everywhere/everything_on", example=True) for rule in RULES
)
