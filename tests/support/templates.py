"""Templates for tests of the rules over templates."""

from __future__ import annotations

from cdk_gpu_clusters.template_rules.engine import judge
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.rule import Outcome, Verdict
from cdk_gpu_clusters.template_rules.template import Template, read_text


def template_of(text: str, *, region: str | None = None) -> Template:
    """A template that is written as YAML or JSON."""
    return Template(read_text(text), region=region)


def verdicts_of(text: str, *rule_ids: str, region: str | None = None) -> list[Verdict]:
    """What some rules, or all, say of a template."""
    rules = [rule for rule in every_rule() if not rule_ids or rule.id in rule_ids]
    return judge(template_of(text, region=region), rules)


def fired_by(text: str) -> set[str]:
    """The ids of the rules that find a fault."""
    return {verdict.rule.id for verdict in verdicts_of(text) if verdict.outcome is Outcome.NOT_COMPLIANT}
