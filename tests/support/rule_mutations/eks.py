"""Faults in clusters and managed node groups of EKS."""

from __future__ import annotations

from rule_mutation import RuleMutation

RULES = (
    "GPU-EKS-011",
    "GPU-EKS-012",
    "GPU-EKS-013",
    "GPU-EKS-014",
    "GPU-EKS-015",
    "GPU-EKS-016",
    "GPU-EKS-017",
    "GPU-EKS-018",
    "GPU-EKS-020",
    "GPU-EKS-021",
    "GPU-EKS-028",
    "GPU-EKS-029",
)

MUTATIONS = tuple(
    RuleMutation(rule=rule, template="everywhere/everything_on", example=True) for rule in RULES
)
