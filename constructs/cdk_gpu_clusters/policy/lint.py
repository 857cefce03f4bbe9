"""Rules over files: what the command and its reports work on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path as File

from cdk_gpu_clusters.policy.acknowledgements import Acknowledgement, acknowledge
from cdk_gpu_clusters.policy.document import Place, UnusableTemplate
from cdk_gpu_clusters.policy.engine import judge
from cdk_gpu_clusters.policy.rule import Outcome, TemplateRule, Verdict
from cdk_gpu_clusters.policy.sources import Source, sources_of
from cdk_gpu_clusters.policy.template import Template, read_template


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict, with its place.

    Attributes:
        file: The template's file.
        place: Line and column.
        verdict: The verdict.
    """

    file: str
    place: Place
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Unusable:
    """A file that cannot be looked at."""

    file: str
    fault: UnusableTemplate

    def __str__(self) -> str:
        place = self.fault.place
        where = f"{self.file}:{place.line}:{place.column}" if place else self.file
        return f"{where}: {_one_line(self.fault.cause)}"


@dataclass(slots=True)
class Report:
    """What was found in some files.

    Attributes:
        rules: The rules that were asked.
        files: The templates that were looked at.
        said: Faults and what is undecidable, by file and place.
        unusable: Files that could not be looked at.
    """

    rules: Sequence[TemplateRule]
    files: list[str] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    unusable: list[Unusable] = field(default_factory=list)

    def faults(self) -> list[Said]:
        """Faults that nobody accepted."""
        return [one for one in self._of(Outcome.NOT_COMPLIANT) if not one.verdict.acknowledged]

    def accepted(self) -> list[Said]:
        """Faults that somebody accepted."""
        return [one for one in self._of(Outcome.NOT_COMPLIANT) if one.verdict.acknowledged]

    def undecidable(self) -> list[Said]:
        """What only a deployment knows."""
        return list(self._of(Outcome.UNDECIDABLE))

    def _of(self, outcome: Outcome) -> Iterator[Said]:
        return (one for one in self.said if one.verdict.outcome is outcome)


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
        region: The Region of templates that do not say theirs.
    """
    report = Report(rules)
    for path in paths:
        try:
            sources = sources_of(path)
        except UnusableTemplate as fault:
            report.unusable.append(Unusable(str(path), fault))
            continue
        for source in sources:
            _lint_source(report, source, acknowledgements, region)
    return report


def _lint_source(
    report: Report, source: Source, acknowledgements: Sequence[Acknowledgement], region: str | None
) -> None:
    name = str(source.file)
    if name in report.files:
        return
    try:
        template = read_template(source.file, region=source.region or region)
        verdicts = acknowledge(
            template, judge(template, report.rules), (*acknowledgements, *source.acknowledgements)
        )
    except UnusableTemplate as fault:
        report.unusable.append(Unusable(name, fault))
        return
    report.files.append(name)
    report.said += sorted(_said(template, verdicts), key=lambda one: (one.place, one.verdict.rule.id))


def _said(template: Template, verdicts: Sequence[Verdict]) -> Iterator[Said]:
    places: dict[object, Place] = {}
    for verdict in verdicts:
        if verdict.outcome in (Outcome.NOT_COMPLIANT, Outcome.UNDECIDABLE):
            if verdict.path not in places:
                places[verdict.path] = template.place(verdict.path)
            yield Said(template.name, places[verdict.path], verdict)


def _one_line(text: str) -> str:
    """A text without line breaks and other control characters, of a length that can be read."""
    shown = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return shown if len(shown) <= 300 else f"{shown[:299]}…"
