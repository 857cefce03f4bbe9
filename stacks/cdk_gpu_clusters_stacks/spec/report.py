"""Findings as text for a terminal or an editor that follows `file:line:column`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from cdk_gpu_clusters.errors import Finding, Severity

_ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)


def format_findings(findings: Iterable[Finding]) -> str:
    """Write findings, errors first, one per line with its fix indented below, and a line that counts them.

    Example:
        >>> from cdk_gpu_clusters.errors import Finding
        >>> fault = Finding(id="GPU-CAP-003", cause="no blocks", got="g6", fix="use spot", path="c.yaml:8:9")
        >>> print(format_findings([fault]))
        c.yaml:8:9: error GPU-CAP-003: no blocks, got g6
            fix: use spot
        1 error
    """
    found = list(findings)
    groups = [[finding for finding in found if finding.severity is severity] for severity in _ORDER]
    lines = [line for group in groups for finding in group for line in _lines(finding)]
    counts = [_count(len(group), severity) for group, severity in zip(groups, _ORDER, strict=True) if group]
    return "\n".join([*lines, ", ".join(counts)]) if lines else ""


def report(findings: Sequence[Finding], *, stream: TextIO | None = None) -> int:
    """Print findings.

    Args:
        findings: What was found.
        stream: Where to print. Default: standard error.

    Returns:
        Exit code: 1 if there is an error among the findings, 0 otherwise.
    """
    text = format_findings(findings)
    if text:
        print(text, file=stream or sys.stderr)
    return int(any(finding.severity is Severity.ERROR for finding in findings))


def _lines(finding: Finding) -> list[str]:
    where = f"{finding.path}: " if finding.path else ""
    got = f", got {finding.got}" if finding.got else ""
    lines = [f"{where}{finding.severity.value} {finding.id}: {finding.cause}{got}"]
    if finding.allowed:
        lines.append(f"    allowed: {finding.allowed}")
    if finding.fix:
        lines.append(f"    fix: {finding.fix}")
    return lines


def _count(number: int, severity: Severity) -> str:
    return f"{number} {severity.value}{'' if number == 1 else 's'}"
