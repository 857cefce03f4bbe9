"""A comparison as text for people: stack by stack, what is replaced first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters_stacks.counting import count

from .changes import Change, Comparison, Effect
from .layout import Row, Section, lay_out
from .text import WIDTH

_ORDER = (Effect.REPLACED, Effect.REMOVED, Effect.LEFT, Effect.ADDED, Effect.UPDATED)


def comparison_text(comparison: Comparison, *, width: int = WIDTH) -> str:
    """A comparison as text.

    Args:
        width: Characters of a line; longer words are not broken.
    """
    sections = [Section("Changes against the deployed file", list(_head(comparison)))]
    if comparison.refused:
        sections.append(Section("Refused", [_refused(finding) for finding in comparison.refused]))
    for stack, changes in groupby(comparison.changes, key=lambda change: change.stack):
        ordered = sorted(changes, key=lambda change: _ORDER.index(change.effect))
        sections.append(Section(f"Stack {stack}", [_change(change) for change in ordered]))
    return lay_out(sections, width=width)


def _head(comparison: Comparison) -> Iterator[Row]:
    many = [
        f"{sum(change.effect is effect for change in comparison.changes)} {effect.value}"
        for effect in _ORDER
        if any(change.effect is effect for change in comparison.changes)
    ]
    yield Row("in all", [", ".join(many) or "nothing changes"])
    if comparison.unchanged:
        stays = f"{count(len(comparison.unchanged), 'template')}: {', '.join(comparison.unchanged)}"
        yield Row("unchanged", [stays])


def _refused(finding: Finding) -> Row:
    return Row(finding.id, [finding.cause, f"got {finding.got}; deployed: {finding.allowed}", f"fix: {finding.fix}"])


def _change(change: Change) -> Row:
    what = change.resource or "entire stack"
    lines = [f"{what}: {change.words}" if change.words else what]
    lines += [f"because of {', '.join(change.keys)}"] if change.keys else []
    lines += [f"nodes: {change.nodes}"] if change.nodes else []
    lines += [f"data: {change.data}"] if change.data else []
    return Row(change.effect.value, lines)
