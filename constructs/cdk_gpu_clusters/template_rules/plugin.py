"""The rules as a validation plugin of a CDK app."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import aws_cdk as cdk
import jsii

from cdk_gpu_clusters._version import __version__
from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.template_rules.acknowledgements import acknowledge, acknowledged_in
from cdk_gpu_clusters.template_rules.document import path_text
from cdk_gpu_clusters.template_rules.engine import judge_estate
from cdk_gpu_clusters.template_rules.links import estates_of
from cdk_gpu_clusters.template_rules.registry import choose_rules
from cdk_gpu_clusters.template_rules.rule import Outcome, Verdict
from cdk_gpu_clusters.template_rules.sources import PLUGIN, nested_templates, sources_of
from cdk_gpu_clusters.template_rules.template import Template


@jsii.implements(cdk.IPolicyValidationPlugin)
class GpuClusterRules:
    """The GPU rules, run over every template of an app when it is synthesized.

    Findings are in CDK's validation report, with the path of the construct. An error fails the synthesis; a warning
    or an info does not. What one stack reads of another one of the app is looked up there. Accept a finding where it
    arises, with a reason, in CDK's ordinary way; its id is `GpuClusterRules::` and the rule's.

    Example:
        >>> cdk.Validations.of(app).add_plugins(GpuClusterRules())
        >>> cdk.Validations.of(stack).acknowledge(
        ...     cdk.Acknowledgment(id="GpuClusterRules::GPU-LT-010", reason="its agent knows no tokens yet")
        ... )
    """

    def __init__(self, *, select: Sequence[str] = (), ignore: Sequence[str] = (), undecidable: bool = False) -> None:
        """Choose the rules.

        Args:
            select: Run only rules whose ids start with one of these; all by default.
            ignore: Do not run rules whose ids start with one of these.
            undecidable: Report as an info, too, what a rule cannot decide from the templates; by default it is left to
                `gpu-clusters lint`.

        Raises:
            ValueError: If no id starts with one of them.
        """
        self._rules = choose_rules(select=select, ignore=ignore)
        self._shown = {Outcome.NOT_COMPLIANT, Outcome.UNDECIDABLE} if undecidable else {Outcome.NOT_COMPLIANT}

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
        """The ids of the rules that run."""
        return [rule.id for rule in self._rules]

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        """Run the rules; CDK calls it when it has written the templates."""
        found = sorted(self._found(_templates(context.template_paths)), key=_heading)
        return cdk.PolicyValidationPluginReport(
            success=not any(_severity(verdict) is Severity.ERROR for verdict in found),
            plugin_version=__version__,
            violations=[_violation(list(group)) for _, group in groupby(found, key=_heading)],
        )

    def _found(self, templates: Sequence[Template]) -> Iterator[Verdict]:
        accepted = {template: acknowledged_in(template) for template in templates}
        for estate in estates_of(templates):
            for template, verdicts in judge_estate(estate, self._rules).items():
                for verdict in acknowledge(template, verdicts, accepted):
                    if verdict.outcome in self._shown and not verdict.acknowledged:
                        yield verdict


def _templates(paths: Sequence[str]) -> list[Template]:
    """The templates of stacks, and those of the stacks nested in them; the manifest beside them has their Regions."""
    stacks = [Path(path) for path in paths]
    folders = {file.parent for file in stacks}
    sources = {source.file: source for folder in sorted(folders) for source in sources_of(folder)}
    files = dict.fromkeys([*stacks, *(file for folder in sorted(folders) for file in nested_templates(folder))])
    return [sources[file].template() for file in files]


def _heading(verdict: Verdict) -> tuple[str, str, str]:
    """What findings of one violation have in common."""
    return verdict.rule.id, verdict.message, verdict.finding.fix if verdict.finding else ""


def _severity(verdict: Verdict) -> Severity:
    return verdict.severity if verdict.outcome is Outcome.NOT_COMPLIANT else Severity.INFO


def _violation(group: Sequence[Verdict]) -> cdk.PolicyViolation:
    first = group[0]
    return cdk.PolicyViolation(
        rule_name=first.rule.id,
        description=first.message,
        fix=first.finding.fix if first.finding else None,
        severity=_severity(first).value,
        rule_metadata={"url": first.rule.url},
        violating_resources=[
            cdk.PolicyViolatingResource(
                resource_logical_id=str(verdict.path[1]),
                template_path=verdict.template.name,
                # relative to the resource, as CDK wants it
                locations=[path_text(verdict.path[2:])],
            )
            for verdict in group
        ],
    )
