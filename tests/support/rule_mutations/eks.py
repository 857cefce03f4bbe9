"""Faults in managed node groups of EKS, which no construct of ours makes."""

from __future__ import annotations

from rule_mutation import RuleMutation

RULES = (
    "GPU-EKS-001",
    "GPU-EKS-002",
    "GPU-EKS-003",
    "GPU-EKS-004",
    "GPU-EKS-005",
    "GPU-EKS-006",
    "GPU-EKS-007",
    "GPU-EKS-008",
)

MUTATIONS = tuple(
    RuleMutation(rule=rule, template="everywhere/everything_on", example=True) for rule in RULES
)
