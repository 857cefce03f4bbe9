"""Faults in clusters of SageMaker HyperPod, which no construct of ours makes."""

from __future__ import annotations

from rule_mutation import RuleMutation

RULES = tuple(f"GPU-HYP-{number:03}" for number in range(1, 10))

MUTATIONS = tuple(
    RuleMutation(rule=rule, template="everywhere/everything_on", example=True) for rule in RULES
)
