"""The rules as a rule package of cfn-lint.

    cfn-lint --append-rules cdk_gpu_clusters.template_rules.cfnlint_rules -- template.yaml

The first letter of an id in cfn-lint is the severity, so `GPU-EFA-004` is `E-GPU-EFA-004` there. What is undecidable is
not reported: cfn-lint has no word for it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any
from weakref import WeakKeyDictionary

from cfnlint.rules import CloudFormationLintRule, RuleMatch

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.template_rules.acknowledgements import acknowledge, acknowledged_in
from cdk_gpu_clusters.template_rules.document import UnusableTemplate
from cdk_gpu_clusters.template_rules.engine import judge, not_compliant
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.rule import TemplateRule, Verdict
from cdk_gpu_clusters.template_rules.template import Template

_LETTERS = {Severity.ERROR: "E", Severity.WARNING: "W", Severity.INFO: "I"}
_Found = dict[str, list[Verdict]]
# cfn-lint asks rule by rule; a template is looked at once.
_FOUND: WeakKeyDictionary[object, _Found] = WeakKeyDictionary()


def _found_in(cfn: Any) -> _Found:
    if cfn not in _FOUND:
        _FOUND[cfn] = _look_at(cfn)
    return _FOUND[cfn]


def _look_at(cfn: Any) -> _Found:
    found: _Found = defaultdict(list)
    try:
        # cfn-lint's values are texts and mappings of its own, which print as JSON
        template = Template.of(json.loads(json.dumps(cfn.template, default=str)))
        accepted = {template: acknowledged_in(template)}
        verdicts = acknowledge(template, judge(template, every_rule()), accepted)
    except UnusableTemplate:
        return found  # cfn-lint reports such a template by its own rules
    for verdict in not_compliant(verdicts):
        found[verdict.rule.id].append(verdict)
    return found


def _rule_class(rule: TemplateRule) -> type[Any]:
    def match(_: object, cfn: Any) -> list[Any]:
        return [
            RuleMatch(list(verdict.path), f"{verdict.message}; fix: {verdict.finding.fix}")
            for verdict in _found_in(cfn).get(rule.id, [])
            if verdict.finding is not None
        ]

    attributes = {
        "id": f"{_LETTERS[rule.severity]}-{rule.id}",
        "shortdesc": rule.title,
        "description": rule.cause,
        "source_url": rule.url,
        "tags": ["gpu", rule.id],
        "match": match,
    }
    return type(rule.id.replace("-", "").title(), (CloudFormationLintRule,), attributes)


globals().update({made.__name__: made for made in map(_rule_class, every_rule())})
