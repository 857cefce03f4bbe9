"""Run rules over a template, once for each case that a check distinguishes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdk_gpu_clusters.template_rules.case import Case
from cdk_gpu_clusters.template_rules.choices import Choices, Fork, Undecidable
from cdk_gpu_clusters.template_rules.document import Path
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, Outcome, TemplateRule, Verdict
from cdk_gpu_clusters.template_rules.template import Estate, Template

# Six conditions that have nothing to do with each other make 64 cases; a rule meets two or three at a resource.
_MOST_CASES = 128


def judge(template: Template, rules: Iterable[TemplateRule]) -> list[Verdict]:
    """The verdicts of the rules on every resource that they check.

    Args:
        template: The template.
        rules: The rules.

    Returns:
        One verdict for each rule and resource, or several where several things are wrong or undecidable.
    """
    return judge_estate(Estate(templates=[template]), rules)[template]


def judge_estate(estate: Estate, rules: Iterable[TemplateRule]) -> dict[Template, list[Verdict]]:
    """The verdicts of the rules on linked templates; see `judge`."""
    cases, rules = _Cases(estate), list(rules)
    return {
        template: [
            verdict
            for rule in rules
            for resource_type in rule.on
            for logical_id in template.logical_ids(resource_type)
            for verdict in _Question(rule, template, logical_id, cases).verdicts()
        ]
        for template in estate.templates
    }


class _Cases:
    """The cases of templates; all rules share their lookups."""

    def __init__(self, estate: Estate) -> None:
        self._estate = estate
        self._made: dict[frozenset[object], Case] = {}

    def case(self, template: Template, choices: Choices) -> Case:
        key = frozenset[object](choices.items())
        if key not in self._made:
            self._made[key] = Case(template, choices, self._estate)
        return self._made[key].beside(template)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer of a check in one case."""

    outcome: Outcome
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class _Branch:
    """A case that has not been checked yet.

    Attributes:
        choices: Its choices.
        group: The branches taken; all cases of one group must agree.
    """

    choices: Choices
    group: tuple[int, ...] = ()


@dataclass(slots=True)
class _Group:
    """Cases that must agree.

    Attributes:
        answers: The answer of each.
        unclear: The verdict if they do not agree.
    """

    answers: list[_Answer] = field(default_factory=list)
    unclear: Undecidable | None = None


class _Question:
    """One rule for one resource."""

    def __init__(self, rule: TemplateRule, template: Template, logical_id: str, cases: _Cases) -> None:
        self._rule = rule
        self._template = template
        self._logical_id = logical_id
        self._cases = cases
        self._path: Path = ("Resources", logical_id)

    def verdicts(self) -> list[Verdict]:
        answers = [self._agreed(group) for group in self._answers()]
        found = _without_repetition([answer.verdicts for answer in answers])
        if found:
            return found
        compliant = any(answer.outcome is Outcome.COMPLIANT for answer in answers)
        return [self._verdict(Outcome.COMPLIANT if compliant else Outcome.NOT_APPLICABLE)]

    def _answers(self) -> list[_Group]:
        """The answers of all cases, by group."""
        groups: dict[tuple[int, ...], _Group] = {}
        pending = [_Branch(Choices())]
        looked_at = 0
        while pending:
            branch = pending.pop()
            group = groups.setdefault(branch.group, _Group())
            looked_at += 1
            if looked_at > _MOST_CASES:
                unclear = Undecidable("too many conditions have nothing to do with each other")
                groups.setdefault((-1,), _Group()).answers.append(self._undecidable(unclear))
                break
            try:
                group.answers.append(self._answer(branch.choices))
            except Fork as fork:
                group.unclear = fork.unclear or group.unclear
                pending += [
                    _Branch(choices, branch.group if fork.must_agree else (*branch.group, number))
                    for number, choices in enumerate(fork.options)
                ]
        return _joined(groups)

    def _answer(self, choices: Choices) -> _Answer:
        verdicts: list[Verdict] = []
        when = str(choices)
        try:
            case = self._cases.case(self._template, choices)
            resource = case.resource(self._logical_id)
            if resource is None:
                return _Answer(Outcome.NOT_APPLICABLE)
            for fault in self._rule.check(resource):  # what was found before something unclear stays found
                verdicts.append(self._fault(fault, when))  # noqa: PERF401
        except NotApplicable:
            return _Answer(Outcome.NOT_APPLICABLE)
        except Undecidable as unclear:
            verdicts += self._undecidable(unclear, when).verdicts
        except RecursionError:
            verdicts += self._undecidable(Undecidable("a value that it needs needs itself"), when).verdicts
        if not verdicts:
            return _Answer(Outcome.COMPLIANT)
        return _Answer(verdicts[0].outcome, tuple(verdicts))

    def _agreed(self, group: _Group) -> _Answer:
        """The answer of a group: one that all its cases give, or none."""
        outcomes = {answer.outcome for answer in group.answers}
        if len(outcomes) == 1 or outcomes == {Outcome.COMPLIANT, Outcome.NOT_APPLICABLE}:
            return min(
                group.answers,
                key=lambda answer: (answer.outcome is Outcome.NOT_APPLICABLE, len(answer.verdicts)),
            )
        if group.unclear is None:
            first = next(verdict for answer in group.answers for verdict in answer.verdicts)
            reason = "the allowed values of a parameter lead to different answers"
            return self._undecidable(Undecidable(reason, first.path, first.template))
        undecidable = (answer for answer in group.answers if answer.outcome is Outcome.UNDECIDABLE)
        return next(undecidable, self._undecidable(group.unclear))

    def _undecidable(self, unclear: Undecidable, when: str = "") -> _Answer:
        verdict = self._verdict(Outcome.UNDECIDABLE, unclear.path, unclear.template)
        return _Answer(Outcome.UNDECIDABLE, (replace(verdict, reason=unclear.reason, when=when),))

    def _fault(self, fault: Fault, when: str) -> Verdict:
        verdict = self._verdict(Outcome.NOT_COMPLIANT, fault.at.path, fault.at.case.template)
        return replace(verdict, finding=self._rule.finding(fault), when=when)

    def _verdict(self, outcome: Outcome, path: Path = (), template: Template | None = None) -> Verdict:
        template = template or self._template
        return Verdict(
            rule=self._rule,
            outcome=outcome,
            resource=self._logical_id,
            path=path or self._path,
            template=template if path else self._template,
            asked_in=self._template.name if path and template is not self._template else "",
        )


def _joined(groups: Mapping[tuple[int, ...], _Group]) -> list[_Group]:
    """The groups, each with the answers of those that it came out of: these must agree with all of it."""
    joined = []
    for key, group in groups.items():
        if not group.answers or any(other[: len(key)] == key and other != key for other in groups):
            continue
        above = [groups[key[:end]] for end in range(len(key)) if key[:end] in groups]
        answers = [answer for one in (*above, group) for answer in one.answers]
        unclear = next((one.unclear for one in (group, *reversed(above)) if one.unclear), None)
        joined.append(_Group(answers, unclear))
    return joined


def _without_repetition(cases: Sequence[Sequence[Verdict]]) -> list[Verdict]:
    """Each verdict once; without its case, if it holds in all cases."""
    found: dict[object, list[Verdict]] = {}
    for verdicts in cases:
        own = {(one.outcome, one.template, one.path, one.finding, one.reason): one for one in verdicts}
        for key, verdict in own.items():
            found.setdefault(key, []).append(verdict)
    return [replace(all_of[0], when="") if len(all_of) == len(cases) else all_of[0] for all_of in found.values()]


def not_compliant(verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """The faults among the verdicts that are not acknowledged."""
    return (v for v in verdicts if v.outcome is Outcome.NOT_COMPLIANT and not v.acknowledged)
