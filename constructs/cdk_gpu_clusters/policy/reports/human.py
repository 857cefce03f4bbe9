"""A report for people: a line for each fault, its fix below it, and a count at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cdk_gpu_clusters.policy.document import path_text
from cdk_gpu_clusters.policy.lint import Report, Said


def human_text(report: Report) -> str:
    """The report as text."""
    return (
        "\n".join([*_faults(report), *_undecidable(report), *map(str, report.unread), _summary(report)])
        + "\n"
    )


def _faults(report: Report) -> Iterator[str]:
    for one in report.faults():
        verdict = one.verdict
        yield f"{_where(one)}: {verdict.severity.value}: {verdict.rule.id}: {verdict.message}"
        yield f"    at {path_text(verdict.path)}"
        if verdict.finding and verdict.finding.fix:
            yield f"    fix: {verdict.finding.fix}"


def _undecidable(report: Report) -> Iterator[str]:
    """What several rules cannot tell for the same reason, in one line."""
    rules: dict[tuple[str, str, str], list[str]] = {}
    for one in report.undecidable():
        reason = f"{one.verdict.reason} (when {one.verdict.when})" if one.verdict.when else one.verdict.reason
        rules.setdefault((_where(one), path_text(one.verdict.path), reason), []).append(one.verdict.rule.id)
    for (where, path, reason), ids in rules.items():
        yield f"{where}: undecidable: {', '.join(dict.fromkeys(ids))}: {reason}"
        yield f"    at {path}"


def _where(one: Said) -> str:
    return f"{one.file}:{one.place.line}:{one.place.column}"


def _summary(report: Report) -> str:
    severities = Counter(one.verdict.severity.value for one in report.faults())
    parts = [_count(severities[name], name) for name in ("error", "warning", "info") if severities[name]]
    undecidable, accepted = len(report.undecidable()), len(report.accepted())
    parts = parts or ["no faults"]
    parts += [f"{undecidable} undecidable"] if undecidable else []
    parts += [f"{accepted} acknowledged"] if accepted else []
    return f"{_count(len(report.files), 'template')}, {_count(len(report.rules), 'rule')}: {', '.join(parts)}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
