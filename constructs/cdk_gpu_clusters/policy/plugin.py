"""The rules as a validation plugin of a CDK app."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import aws_cdk as cdk
import jsii

from cdk_gpu_clusters._version import __version__
from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.policy.acknowledgements import acknowledge
from cdk_gpu_clusters.policy.document import path_text
from cdk_gpu_clusters.policy.engine import judge, not_compliant
from cdk_gpu_clusters.policy.registry import choose_rules
from cdk_gpu_clusters.policy.rule import Verdict
from cdk_gpu_clusters.policy.sources import PLUGIN, nested_templates
from cdk_gpu_clusters.policy.template import read_template


@jsii.implements(cdk.IPolicyValidationPlugin)
class GpuClusterRules:
    """The GPU rules, run over every template of an app when it is synthesized.

    Findings stand in CDK's validation report, with the path of the construct. An error fails the synthesis; a warning
    or an info does not. Accept a finding where it arises, with a reason, in CDK's ordinary way; its id is
    `GpuClusterRules::` and the rule's.

    Example:
        >>> cdk.Validations.of(app).add_plugins(GpuClusterRules())
        >>> cdk.Validations.of(stack).acknowledge(
        ...     cdk.Acknowledgment(id="GpuClusterRules::GPU-LT-010", reason="its agent knows no tokens yet")
        ... )
    """

    def __init__(self, *, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> None:
        """Choose the rules.

        Args:
            select: Ask only rules whose ids start with one of these; all by default.
            ignore: Do not ask rules whose ids start with one of these.

        Raises:
            ValueError: If no id starts with one of them.
        """
        self._rules = choose_rules(select=select, ignore=ignore)

    @property
    def name(self) -> str:
        """The plugin's name in the report, and the first part of what is acknowledged."""
        return PLUGIN

    @property
    def version(self) -> str:
        """The version of the rules."""
        return __version__

    @property
    def rule_ids(self) -> list[str]:
        """The ids of the rules that are asked."""
        return [rule.id for rule in self._rules]

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        """Run the rules; CDK calls it when it has written the templates."""
        regions = {stack.template_path: stack.region for stack in context.stack_templates}
        for folder in {Path(path).parent for path in regions}:
            regions |= {str(file): None for file in nested_templates(folder)}
        found = [one for path, region in regions.items() for one in self._found(path, region)]
        found.sort(key=lambda one: _heading(one[1]))
        return cdk.PolicyValidationPluginReport(
            success=not any(verdict.rule.severity is Severity.ERROR for _, verdict in found),
            plugin_version=__version__,
            violations=[_violation(verdict, list(group)) for (_, verdict), group in _grouped(found)],
        )

    def _found(self, path: str, region: str | None) -> Iterator[_Found]:
        template = read_template(Path(path), region=region)
        verdicts = acknowledge(template, judge(template, self._rules))
        return ((path, verdict) for verdict in not_compliant(verdicts))


_Found = tuple[str, Verdict]


def _heading(verdict: Verdict) -> tuple[str, str, str]:
    """What findings of one violation have in common."""
    return verdict.rule.id, verdict.message, verdict.finding.fix if verdict.finding else ""


def _grouped(found: list[_Found]) -> Iterator[tuple[_Found, list[_Found]]]:
    for _, group in groupby(found, key=lambda one: _heading(one[1])):
        members = list(group)
        yield members[0], members


def _violation(verdict: Verdict, group: list[_Found]) -> cdk.PolicyViolation:
    return cdk.PolicyViolation(
        rule_name=verdict.rule.id,
        description=verdict.message,
        fix=verdict.finding.fix if verdict.finding else None,
        severity=verdict.rule.severity.value,
        rule_metadata={"url": verdict.rule.url},
        violating_resources=[
            cdk.PolicyViolatingResource(
                resource_logical_id=one.resource,
                template_path=template_path,
                # relative to the resource, as CDK wants it
                locations=[path_text(one.path[2:])],
            )
            for template_path, one in group
        ],
    )
