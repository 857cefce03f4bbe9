"""Read a cluster file: every fault at once, each with its line and column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from cdk_gpu_clusters.errors import ConfigError, Finding, errors_in

from ._document import Document
from ._fault import Fault
from ._parts import parts_of, sound_parts
from ._source import read_text
from ._translate import translate
from ._yaml import parse
from .change import check_change
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


def read_cluster(path: str | Path, *, deployed: ClusterSpec | None = None) -> Reading:
    """Read a cluster file, and give its findings instead of raising them.

    Args:
        path: The file. Scripts that it names are looked up beside it.
        deployed: The cluster as it is deployed: a change that would replace one of its stores is an error.
    """
    file = Path(path)
    text = read_text(file)
    if isinstance(text, Finding):
        return Reading(None, (text,))
    document = parse(text)
    spec, faults = _validate(document, file.parent.absolute())
    if spec is not None and deployed is not None:
        faults += check_change(deployed, spec)
    placed = list(document.faults)
    placed += [
        (document.place_of(fault.key, at_key=fault.at_key), fault.finding)
        for fault in faults
        if fault.key not in document.unread  # its fault is among the document's already
    ]
    placed.sort(key=lambda item: (item[0].line, item[0].column))
    findings = tuple(
        replace(finding, path=f"{file}:{place.line}:{place.column}") for place, finding in placed
    )
    return Reading(None if errors_in(findings) else spec, _unique(findings))


def _unique(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(dict.fromkeys(findings))


def _validate(document: Document, folder: Path) -> tuple[ClusterSpec | None, list[Fault]]:
    """Check the types, then ask the rules about whatever has the right type."""
    if not isinstance(document.data, dict):
        return None, []
    context = {FOLDER: folder}
    try:
        spec = ClusterSpec.model_validate(document.data, context=context)
    except ValidationError as fault:
        faults = translate(fault.errors(include_url=False))
        return None, faults + faults_of(sound_parts(document.data, context))
    return spec, faults_of(parts_of(spec))
