"""Findings with stable ids, and the one exception that carries them.

A rule is defined once, beside the function that checks it. A check returns findings, so that a user sees every
fault at once; a plan or a constructor raises `ConfigError` with all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import wraps
from types import MappingProxyType
from typing import ParamSpec

from ._untrusted import printable_line, shortened

_Parameters = ParamSpec("_Parameters")
_RULE_ID = re.compile(r"GPU-[A-Z][A-Z0-9]{1,4}-\d{3}")
_RULES: dict[str, Rule] = {}


class Severity(str, Enum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault: what is wrong, the value got, the values allowed, and the change to make.

    Attributes:
        id: Stable rule id, such as `GPU-EFA-001`.
        cause: What is wrong, in the user's words.
        got: The value that was given.
        allowed: The values that would be accepted.
        fix: The change to make.
        path: Location of the value, such as `training.fleets.trainers.capacity` or a construct path.
        severity: Errors stop; warnings and infos do not.
    """

    id: str
    cause: str
    got: str = ""
    allowed: str = ""
    fix: str = ""
    path: str = ""
    severity: Severity = Severity.ERROR

    def at(self, path: str) -> Finding:
        """Give the same finding with `path` put before its own path."""
        return replace(self, path=f"{path}.{self.path}" if self.path else path)

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        got = f", got {shortened(self.got)}" if self.got else ""
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        fix = f"; fix: {self.fix}" if self.fix else ""
        return printable_line(f"{self.id}: {where}{self.cause}{got}{allowed}{fix}")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of this library: its stable id, a title, and where it comes from."""

    id: str
    title: str
    source: str

    def finding(
        self,
        *,
        cause: str,
        got: str = "",
        allowed: str = "",
        fix: str = "",
        path: str = "",
        severity: Severity = Severity.ERROR,
    ) -> Finding:
        """Make a finding of this rule."""
        return Finding(id=self.id, cause=cause, got=got, allowed=allowed, fix=fix, path=path, severity=severity)


def define_rule(rule_id: str, title: str, *, source: str) -> Rule:
    """Register a rule under a stable id.

    Args:
        rule_id: `GPU-<AREA>-<three digits>`; never reused for another meaning.
        title: What the rule asks for, in one line.
        source: The page, repository or reasoning that the rule rests on.

    Raises:
        ValueError: If the id is malformed or taken.
    """
    if not _RULE_ID.fullmatch(rule_id):
        raise ValueError(f"rule id {rule_id!r} is not GPU-<AREA>-<three digits>")
    if rule_id in _RULES:
        raise ValueError(f"rule id {rule_id} is taken by {_RULES[rule_id].title!r}")
    rule = Rule(rule_id, title, source)
    _RULES[rule_id] = rule
    return rule


def check(function: Callable[_Parameters, Iterator[Finding]]) -> Callable[_Parameters, list[Finding]]:
    """Make a check of a generator: a call returns the list of what it yields.

    Example:
        >>> from cdk_gpu_clusters.errors import Finding, check
        >>> @check
        ... def check_count(count: int):
        ...     if count < 1:
        ...         yield Finding(id="GPU-CAP-001", cause="too few")
        >>> check_count(1)
        []
    """

    @wraps(function)
    def listed(*args: _Parameters.args, **options: _Parameters.kwargs) -> list[Finding]:
        return list(function(*args, **options))

    function.__annotations__["return"] = "list[Finding]"
    return listed


def defined_rules() -> Mapping[str, Rule]:
    """All rules that the imported modules define, by id."""
    return MappingProxyType(dict(sorted(_RULES.items())))


class ConfigError(ValueError):
    """What the user asked for cannot work; carries every finding.

    Example:
        >>> from cdk_gpu_clusters.errors import ConfigError, Finding
        >>> str(ConfigError([Finding(id="GPU-CAP-001", cause="a block needs its end", fix="give ends_at")]))
        'GPU-CAP-001: a block needs its end; fix: give ends_at'
    """

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings: tuple[Finding, ...] = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))


def errors_in(findings: Iterable[Finding]) -> list[Finding]:
    """The findings of severity error."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def raise_for(findings: Iterable[Finding], *, path: str = "") -> None:
    """Raise `ConfigError` with every error among the findings, placed under `path`; do nothing if there is none.

    Raises:
        ConfigError: If any finding is an error.
    """
    errors = [finding.at(path) if path else finding for finding in errors_in(findings)]
    if errors:
        raise ConfigError(errors)
