"""A finding, and the place in the cluster file's tree that it is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cdk_gpu_clusters.errors import Finding

from ._document import Key, dotted


@dataclass(frozen=True, slots=True)
class Fault:
    """A finding and its place.

    Attributes:
        key: Path of the value from the root.
        finding: What is wrong.
        at_key: Whether the fault is the key itself, not its value.
    """

    key: Key
    finding: Finding
    at_key: bool = False


def faults_at(key: Key, findings: Iterable[Finding], *, at_key: bool = False) -> list[Fault]:
    """Place the findings of a rule at a key's value (or the key itself); its dotted name goes into the cause."""
    return [
        Fault(key, replace(finding, cause=f"{dotted(key)}: {finding.cause}"), at_key) for finding in findings
    ]


def under(key: Key, findings: Iterable[Finding]) -> list[Fault]:
    """As `faults_at`, at the part of the value that each finding's own path names (`ends_at`)."""
    return [fault for finding in findings for fault in faults_at((*key, *_own(finding)), [finding])]


def _own(finding: Finding) -> Key:
    return (finding.path,) if finding.path.isidentifier() else ()
