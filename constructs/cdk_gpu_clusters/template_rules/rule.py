"""Rules over templates, and their verdicts.

A rule's check is a generator over one resource. It yields a `Fault` for each thing that is wrong, and nothing if all is
well. It raises `NotApplicable` if the rule does not concern the resource, and catches nothing that a value raises
(`Undecidable`, `Fork`): the engine turns these into verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NotRequired, TypedDict, TypeVar, Unpack

from cdk_gpu_clusters.errors import Finding, Rule, Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.document import Path, path_text
from cdk_gpu_clusters.template_rules.template import Template

T = TypeVar("T")


class NotApplicable(Exception):
    """The rule does not concern the resource."""


def applicable(found: T | None) -> T:
    """What a check looks at.

    Raises:
        NotApplicable: If it is None, or an empty list: there is nothing for the rule to check.
    """
    if found is None or found == []:
        raise NotApplicable
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something wrong at a value or a resource.

    Attributes:
        at: Where.
        got: The value that was found.
        allowed: The values that would be accepted.
        cause: What is wrong; the rule's cause by default.
        fix: The change to make; the rule's fix by default.
        severity: How bad it is; the rule's severity by default.
    """

    at: Value | Resource
    got: str = ""
    allowed: str = ""
    cause: str = ""
    fix: str = ""
    severity: Severity | None = None


Check = Callable[[Resource], Iterator[Fault]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRule:
    """A rule over templates, made by `template_rule`, `define_template_rule` or `SharedCheck.rule`.

    Attributes:
        rule: Its id, title and source; the same as those of a construct's rule with the same requirement.
        cause: What goes wrong otherwise, in a user's words.
        fix: The change to make.
        url: A page with more about it.
        on: Types of resource that it checks.
        looks_at: The properties that it reads, such as `LaunchTemplateData/InstanceType`, or with a type before them.
        check: The check.
        severity: Errors fail a deployment or break the cluster; warnings cost money, speed or safety; infos are advice.
    """

    rule: Rule
    cause: str
    fix: str
    url: str
    on: tuple[str, ...]
    looks_at: tuple[str, ...]
    check: Check
    severity: Severity = Severity.ERROR

    @property
    def id(self) -> str:
        """Its stable id."""
        return self.rule.id

    @property
    def title(self) -> str:
        """Its requirement."""
        return self.rule.title

    def finding(self, fault: Fault) -> Finding:
        """The finding that a fault is."""
        return self.rule.finding(
            cause=fault.cause or self.cause,
            got=fault.got,
            allowed=fault.allowed,
            fix=fault.fix or self.fix,
            path=path_text(fault.at.path),
            severity=fault.severity or self.severity,
        )


class About(TypedDict):
    """What a rule states besides its check, as attributes of `TemplateRule`."""

    cause: str
    fix: str
    url: str
    on: tuple[str, ...]
    looks_at: tuple[str, ...]
    severity: NotRequired[Severity]


def template_rule(rule: Rule, **about: Unpack[About]) -> Callable[[Check], TemplateRule]:
    """Make a check the rule over templates with the requirement of a rule that is defined elsewhere. A decorator."""
    return lambda check: TemplateRule(rule=rule, check=check, **about)


def define_template_rule(
    rule_id: str, title: str, *, source: str, **about: Unpack[About]
) -> Callable[[Check], TemplateRule]:
    """Make a check a rule with an id of its own; see `define_rule`. A decorator."""
    return template_rule(define_rule(rule_id, title, source=source), **about)


def faults_of(
    rule: Rule,
    findings: Iterable[Finding],
    at: Value | Resource,
    *,
    got: str = "",
    allowed: str = "",
    own_cause: bool = False,
    own_fix: bool = False,
) -> Iterator[Fault]:
    """The findings of one rule among those of a decision function of `cdk_gpu_clusters.rules`, as faults.

    Args:
        rule: The rule.
        findings: The findings.
        at: Where.
        got: The value in CloudFormation's words; that of the finding by default.
        allowed: The allowed values in CloudFormation's words; those of the finding by default.
        own_cause: Take the cause of the rule over templates.
        own_fix: Take the fix of the rule over templates, where that of the finding names parameters of our constructs.
    """
    for finding in findings:
        if finding.id == rule.id:
            yield Fault(
                at=at,
                got=got or finding.got,
                allowed=allowed or finding.allowed,
                cause="" if own_cause else finding.cause,
                fix="" if own_fix else finding.fix,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCheck:
    """A check that several rules share: it is run once for a resource, and each rule takes its own findings.

    Attributes:
        find: The check: findings of decision functions, with their place; a function at the top level of a module.
        url: A page about all of the rules.
        on: Types of resource that it checks.
        looks_at: The properties that it reads.
        own_fix: Whether faults have the fixes of the rules over templates; see `faults_of`.
    """

    find: Callable[[Resource], Sequence[tuple[Value, Sequence[Finding]]]]
    url: str
    on: tuple[str, ...]
    looks_at: tuple[str, ...]
    own_fix: bool = False

    def rule(
        self,
        rule: Rule,
        *,
        cause: str,
        fix: str,
        severity: Severity = Severity.ERROR,
        at: str = "",
        allowed: str = "",
        url: str = "",
    ) -> TemplateRule:
        """One of the rules; the arguments are those of `TemplateRule` and `faults_of`, and the path of a property."""

        def check(resource: Resource) -> Iterator[Fault]:
            for place, findings in resource.once(self.find):
                value = resource.get(*at.split("/")) if at else place
                yield from faults_of(rule, findings, value, allowed=allowed, own_fix=self.own_fix)

        return TemplateRule(
            rule=rule,
            severity=severity,
            cause=cause,
            fix=fix,
            url=url or self.url,
            on=self.on,
            looks_at=self.looks_at,
            check=check,
        )


class Outcome(StrEnum):
    """The outcome of a rule for a resource."""

    COMPLIANT = "compliant"
    NOT_COMPLIANT = "not compliant"
    NOT_APPLICABLE = "not applicable"
    UNDECIDABLE = "undecidable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of one rule on one resource.

    Attributes:
        rule: The rule.
        outcome: The outcome.
        resource: Logical id.
        path: Where, for a fault and for what is undecidable; the resource otherwise.
        finding: The finding of a fault.
        reason: Why it is undecidable, or why a fault was acknowledged.
        when: The case that it holds in, if not in all: `Market = 'spot'`.
        acknowledged: Whether the fault is accepted, with `reason`.
        template: The template of the path: of several that are linked, it may be another one than the resource's.
        asked_in: Name of the resource's template, if the path is in another one.
    """

    rule: TemplateRule
    outcome: Outcome
    resource: str
    path: Path
    template: Template
    finding: Finding | None = None
    reason: str = ""
    when: str = ""
    acknowledged: bool = False
    asked_in: str = ""

    @property
    def severity(self) -> Severity:
        """How bad a fault is; of what is undecidable, how bad it would be."""
        return self.finding.severity if self.finding else self.rule.severity

    @property
    def message(self) -> str:
        """One sentence."""
        if self.finding is None:
            text = f"cannot be decided: {self.reason} (rule: {self.rule.title})"
        else:
            got = f", got {self.finding.got}" if self.finding.got else ""
            allowed = f"; allowed: {self.finding.allowed}" if self.finding.allowed else ""
            text = f"{self.finding.cause}{got}{allowed}"
        text += f" (for {self.resource} of {self.asked_in})" if self.asked_in else ""
        return f"{text} (when {self.when})" if self.when else text
