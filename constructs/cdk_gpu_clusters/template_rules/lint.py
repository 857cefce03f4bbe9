"""Rules over files: what the command and its reports work on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path as File

from cdk_gpu_clusters.template_rules.acknowledgements import Acknowledgement, acknowledge, acknowledged_in
from cdk_gpu_clusters.template_rules.document import Place, UnusableTemplate
from cdk_gpu_clusters.template_rules.engine import judge_estate
from cdk_gpu_clusters.template_rules.links import estates_of
from cdk_gpu_clusters.template_rules.rule import Outcome, TemplateRule, Verdict
from cdk_gpu_clusters.template_rules.sources import Source, sources_of
from cdk_gpu_clusters.template_rules.template import Template


@dataclass(frozen=True, slots=True)
class PlacedVerdict:
    """A verdict, with its place.

    Attributes:
        file: The template's file.
        place: Line and column.
        verdict: The verdict.
    """

    file: str
    place: Place
    verdict: Verdict

    @property
    def where(self) -> str:
        """File, line and column."""
        return f"{self.file}:{self.place}"


@dataclass(frozen=True, slots=True)
class Unusable:
    """A file that cannot be checked."""

    file: str
    fault: UnusableTemplate

    def __str__(self) -> str:
        where = f"{self.file}:{self.fault.place}" if self.fault.place else self.file
        return f"{where}: {_one_line(self.fault.cause)}"


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a template that only CloudFormation can read, such as a loop: its resources are not checked."""

    file: str
    place: Place
    key: str

    def __str__(self) -> str:
        return f"{self.file}:{self.place}: not looked at: {_one_line(self.key)}, which only CloudFormation expands"


@dataclass(slots=True)
class Report:
    """What was found in some files.

    Attributes:
        rules: The rules that were run.
        files: The templates that were checked.
        verdicts: Faults and what is undecidable, by file and place.
        unusable: Files that could not be checked.
        unread: Parts of the templates that could not.
    """

    rules: Sequence[TemplateRule]
    files: list[str] = field(default_factory=list)
    verdicts: list[PlacedVerdict] = field(default_factory=list)
    unusable: list[Unusable] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)

    def faults(self) -> list[PlacedVerdict]:
        """Faults that are not accepted."""
        return [one for one in self._of(Outcome.NOT_COMPLIANT) if not one.verdict.acknowledged]

    def accepted(self) -> list[PlacedVerdict]:
        """Accepted faults."""
        return [one for one in self._of(Outcome.NOT_COMPLIANT) if one.verdict.acknowledged]

    def undecidable(self) -> list[PlacedVerdict]:
        """What only a deployment knows."""
        return list(self._of(Outcome.UNDECIDABLE))

    def _of(self, outcome: Outcome) -> Iterator[PlacedVerdict]:
        return (one for one in self.verdicts if one.verdict.outcome is outcome)


def lint(
    paths: Sequence[File],
    rules: Sequence[TemplateRule],
    *,
    acknowledgements: Sequence[Acknowledgement] = (),
    region: str | None = None,
) -> Report:
    """Run rules over files and folders.

    Args:
        paths: Templates, or `cdk.out` folders.
        rules: The rules.
        acknowledgements: What is accepted in all of them.
        region: The Region of templates that do not name theirs.
    """
    report = Report(rules)
    accepted: dict[Template, list[Acknowledgement]] = {}
    for source in _sources(report, paths):
        try:
            template = source.template(region)
            own = acknowledged_in(template)
        except UnusableTemplate as fault:
            report.unusable.append(Unusable(str(source.file), fault))
            continue
        accepted[template] = [*acknowledgements, *source.acknowledgements, *own]
        report.files.append(template.name)
        report.unread += [Unread(template.name, template.place(("Resources", key)), key) for key in template.unread]
    for estate in estates_of(list(accepted)):
        for template, verdicts in judge_estate(estate, rules).items():
            report.verdicts += _placed(acknowledge(template, verdicts, accepted))
    order = {name: index for index, name in enumerate(report.files)}
    report.verdicts.sort(key=lambda one: (order[one.file], one.place, one.verdict.rule.id))
    return report


def _sources(report: Report, paths: Sequence[File]) -> Iterator[Source]:
    """The templates behind paths, each once."""
    seen: set[File] = set()
    for path in paths:
        try:
            sources = sources_of(path)
        except UnusableTemplate as fault:
            report.unusable.append(Unusable(str(path), fault))
            continue
        yield from (source for source in sources if source.file not in seen)
        seen |= {source.file for source in sources}


def _placed(verdicts: Sequence[Verdict]) -> Iterator[PlacedVerdict]:
    places: dict[object, Place] = {}
    for verdict in verdicts:
        if verdict.outcome in (Outcome.NOT_COMPLIANT, Outcome.UNDECIDABLE):
            at = (verdict.template, verdict.path)
            if at not in places:
                places[at] = verdict.template.place(verdict.path)
            yield PlacedVerdict(verdict.template.name, places[at], verdict)


def _one_line(text: str) -> str:
    """A text without line breaks and other control characters, of a length that can be read."""
    shown = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return shown if len(shown) <= 300 else f"{shown[:299]}…"
