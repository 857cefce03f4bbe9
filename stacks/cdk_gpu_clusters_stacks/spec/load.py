"""Read a cluster file: every fault at once, each with its line and column."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from pydantic import ValidationError

from cdk_gpu_clusters._untrusted import printable_line, shortened
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity, errors_in
from cdk_gpu_clusters_stacks.counting import count

from ._check_data import check_change
from ._document import Document, Fault, decode, parse, read_text
from ._meant import foreign_file
from ._messages import translate
from ._parts import parts_of, valid_parts
from .check import faults_of
from .fleet import FOLDER
from .model import ClusterSpec


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a cluster file gave.

    Attributes:
        spec: The cluster; none if there is an error among the findings.
        findings: Errors and warnings in the order of the file; their paths are `file:line:column`.
    """

    spec: ClusterSpec | None
    findings: tuple[Finding, ...]


def load_cluster(path: str | Path) -> ClusterSpec:
    """Read a cluster file.

    Args:
        path: The file. Scripts that it names are looked up beside it.

    Returns:
        The cluster. Warnings are left out; `read_cluster` gives them too.

    Raises:
        ConfigError: If anything is wrong with the file, with every finding, in the order of the file.

    Example:
        >>> load_cluster("examples/g6-dev-node.yaml").name
        'dev'
    """
    reading = read_cluster(path)
    if reading.spec is None:
        raise ConfigError(reading.findings)
    return reading.spec


def read_cluster(
    path: str | Path,
    *,
    deployed: ClusterSpec | None = None,
    content: bytes | None = None,
    also: Callable[[ClusterSpec], Iterable[Fault]] | None = None,
) -> Reading:
    """Read a cluster file, and give its findings instead of raising them.

    Args:
        path: The file. Scripts that it names are looked up beside it.
        deployed: The cluster as it is deployed: a change that would replace one of its stores is an error.
        content: What the file holds, if it is not to be read, such as standard input.
        also: Asked about a cluster without errors, such as whether another tool takes it.
    """
    file = Path(path)
    text = read_text(file) if content is None else decode(content, file)
    if isinstance(text, Finding):
        return Reading(None, (text,))
    document = parse(text)
    spec, faults = _validate(document, file.parent.absolute())
    if spec is not None and deployed is not None:
        faults += check_change(deployed, spec)
    if spec is not None and also is not None and not errors_in(fault.finding for fault in faults):
        faults += also(spec)
    placed = list(document.faults)
    placed += [
        (document.place_of(fault.key, at_key=fault.at_key), fault.finding)
        for fault in faults
        if fault.key not in document.unread  # its fault is among the document's already
    ]
    placed.sort(key=lambda item: (item[0].line, item[0].column))
    findings = tuple(replace(finding, path=f"{file}:{place.line}:{place.column}") for place, finding in placed)
    return Reading(None if errors_in(findings) else spec, _unique(findings))


def _unique(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(dict.fromkeys(findings))


def _validate(document: Document, folder: Path) -> tuple[ClusterSpec | None, list[Fault]]:
    """Check the types, then ask the rules about whatever has the right type."""
    if not isinstance(document.data, dict):
        return None, []
    if tool := foreign_file(document.data):
        return None, [Fault((next(iter(document.data)),), tool, at_key=True)]
    context = {FOLDER: folder}
    try:
        spec = ClusterSpec.model_validate(document.data, context=context)
    except ValidationError as fault:
        faults = translate(fault.errors(include_url=False))
        return None, faults + faults_of(valid_parts(document.data, context))
    return spec, faults_of(parts_of(spec))


# Findings as text for a terminal, or for an editor that follows `file:line:column`.

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
    counts = [count(len(group), severity.value) for group, severity in zip(groups, _ORDER, strict=True) if group]
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


#: A cause may name a key of any length.
_LONGEST_CAUSE = 1_000


def _lines(finding: Finding) -> list[str]:
    where = f"{finding.path}: " if finding.path else ""
    got = f", got {shortened(finding.got)}" if finding.got else ""
    lines = [f"{where}{finding.severity.value} {finding.id}: {shortened(finding.cause, _LONGEST_CAUSE)}{got}"]
    if finding.allowed:
        lines.append(f"    allowed: {finding.allowed}")
    if finding.fix:
        lines.append(f"    fix: {finding.fix}")
    return [printable_line(line) for line in lines]
