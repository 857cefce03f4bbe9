"""Faults in clusters of SageMaker HyperPod, which no construct of ours makes."""

from __future__ import annotations

from rule_mutation import RuleMutation

RULES = (
    "GPU-HYP-001",
    "GPU-HYP-002",
    "GPU-HYP-003",
    "GPU-HYP-004",
    "GPU-HYP-005",
    "GPU-HYP-006",
    "GPU-HYP-007",
    "GPU-HYP-008",
    "GPU-HYP-009",
)

MUTATIONS = tuple(
    RuleMutation(rule=rule, template="everywhere/everything_on", example=True) for rule in RULES
)
