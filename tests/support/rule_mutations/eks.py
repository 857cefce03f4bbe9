"""Faults in managed node groups of EKS, which no construct of ours makes."""

from __future__ import annotations

from rule_mutation import RuleMutation

RULES = tuple(f"GPU-EKS-{number:03}" for number in range(1, 9))

MUTATIONS = tuple(
    RuleMutation(rule=rule, template="everywhere/everything_on", example=True) for rule in RULES
)
