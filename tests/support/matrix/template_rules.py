"""What the rules over templates say of an app that was synthesized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdk_gpu_clusters.template_rules.engine import judge_estate
from cdk_gpu_clusters.template_rules.links import estates_of
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.rule import TemplateRule, Verdict
from cdk_gpu_clusters.template_rules.template import Template
from matrix.cloud import Place

#: Why rules cannot tell of templates that our own constructs make: all of it is what a user brought along.
EXPLAINED = {
    "what an image holds is not known by its id": "the user gave the id of an image",
    "no instance type is named in this template": "EKS and AWS PCS name the type where they use the launch template",
    "what launches from it, maybe into a group, is not in the template": "of a launch template alone",
    "which placement group the reservation was made in is not in the template": "it existed before",
    "this placement group is not in the template": "it existed before, with the reservation in it",
    "this subnet is not in the template": "of an existing network",
    "this may be the security group of the cluster": "of an existing cluster of EKS",
    "the rules of this security group are not in the template": "of an existing cluster of EKS",
    "the zone of this subnet is not in the template": "of an existing network",
    "the version of Slurm of this cluster is not in the template": "of an existing cluster of AWS PCS",
}


def ask_rules(
    templates: Mapping[str, Any], region: str | None = None, *, rules: Sequence[TemplateRule] | None = None
) -> dict[Place, list[Verdict]]:
    """Ask rules about the templates of one app, each under the name of its stack.

    Args:
        templates: The templates by stack.
        region: Their Region; none by default.
        rules: The rules; every one by default.

    Returns:
        The verdicts about each resource.
    """
    given = [Template.of(data, name=name, stack_name=name, region=region) for name, data in templates.items()]
    found: dict[Place, list[Verdict]] = {}
    for estate in estates_of(given):
        for template, verdicts in judge_estate(estate, every_rule() if rules is None else rules).items():
            for verdict in verdicts:
                found.setdefault(Place(template.name, verdict.resource), []).append(verdict)
    return found
