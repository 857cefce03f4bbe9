"""A file of another tool: its values with their places, and what of them was read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from cdk_gpu_clusters.errors import Finding, Rule
from cdk_gpu_clusters_stacks.spec._document import Document, Key, decode, dotted, parse, read_text
from cdk_gpu_clusters_stacks.spec._rules import MAPPING

from ._rules import KIND, PLACEHOLDER, VALUE

_KINDS = (
    "an AWS ParallelCluster 3 file (HeadNode and Scheduling), an eksctl file (kind: ClusterConfig), or a file of "
    "SageMaker HyperPod (InstanceGroups, or instance_group_settings of its CLI)"
)
#: What people write where a value is to be filled in: `${NAME}`, `{NAME}`, `<name>`, `PLACEHOLDER_NAME`, `cr-xxxxx`.
_PLACEHOLDER = re.compile(r"\$\{?\w+\}?|\{\{?\s*\w+\s*\}?\}|<[^>]+>|PLACEHOLDER\w*|x{4,}", re.ASCII)
# YAML 1.1, which both tools read: yaml.org/type/bool.html.
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")


@dataclass(slots=True)
class Foreign:
    """A file that is imported.

    Attributes:
        name: Its path, as messages show it.
        document: Its values and their places.
        read: Values that were read or left out on purpose, by their path from the root.
        findings: What is wrong with it, each at its line.
    """

    name: str
    document: Document
    read: set[Key] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)

    @property
    def root(self) -> Part:
        """All of it."""
        return Part(self, (), self.document.data)

    def place(self, key: Key) -> str:
        """File, line and column of a value; of what an account has, its path in the place of a file."""
        if not self.document.values:
            return f"{self.name} {dotted(key)}:1:1"
        found = self.document.place_of(key)
        return f"{self.name}:{found.line}:{found.column}"

    def unread(self) -> list[Part]:
        """The outermost values of which nothing was read. Empty values are left out: nothing is lost with them."""
        touched = {key[:length] for key in self.read for length in range(len(key) + 1)}
        return list(_unread(self.root, self.read, touched))


def _unread(part: Part, read: set[Key], touched: set[Key]) -> Iterator[Part]:
    if part.key in read or part.value in (None, {}, []):
        return
    if part.key not in touched and part.key:
        yield part
        return
    for child in part.children():
        yield from _unread(child, read, touched)


@dataclass(frozen=True, eq=False)
class Part:
    """A value in the file, or the place where one could be.

    Attributes:
        foreign: The file.
        key: Path from the root.
        value: The value; None if there is none.
    """

    foreign: Foreign
    key: Key
    value: object

    @cached_property
    def place(self) -> str:
        """File, line and column."""
        return self.foreign.place(self.key)

    @property
    def name(self) -> str:
        """The path as text, such as `Scheduling.SlurmQueues[0]`."""
        return dotted(self.key)

    @property
    def exists(self) -> bool:
        """Whether the file gives a value."""
        return self.value is not None

    def __getitem__(self, name: str) -> Part:
        """A value inside a mapping; the fault of anything else is reported once."""
        if self.value is not None and not isinstance(self.value, Mapping):
            self._refuse("a mapping of keys to values")
            return Part(self.foreign, (*self.key, name), None)
        inside = self.value if isinstance(self.value, Mapping) else {}
        return Part(self.foreign, (*self.key, name), inside.get(name))

    def children(self) -> list[Part]:
        """The values inside a mapping or a list."""
        if isinstance(self.value, Mapping):
            return [Part(self.foreign, (*self.key, name), one) for name, one in self.value.items()]
        if isinstance(self.value, list):
            return [Part(self.foreign, (*self.key, index), one) for index, one in enumerate(self.value)]
        return []

    def items(self) -> list[Part]:
        """The values of a list."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self._refuse("a list")
            return []
        return self.children()

    def entries(self) -> dict[str, Part]:
        """The values of a mapping by name."""
        if self.value is None:
            return {}
        if not isinstance(self.value, Mapping):
            self._refuse("a mapping of keys to values")
            return {}
        return {str(part.key[-1]): part for part in self.children()}

    def text(self) -> str | None:
        """The value as text; None if there is none."""
        if self.value is None:
            return None
        if isinstance(self.value, Mapping | list | bool):
            self._refuse("text")
            return None
        self.foreign.read.add(self.key)
        return str(self.value)

    def texts(self) -> list[str]:
        """The values of a list of texts."""
        return [text for part in self.items() if (text := part.text()) is not None]

    def number(self) -> int | None:
        """The value as a whole number; None if there is none."""
        if self.value is None:
            return None
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self._refuse("a whole number")
            return None
        self.foreign.read.add(self.key)
        return self.value

    def flag(self) -> bool | None:
        """The value as yes or no; None if there is none."""
        if self.value is None:
            return None
        word = str(self.value).lower() if isinstance(self.value, bool | str) else ""
        if word not in (*_TRUE, *_FALSE):
            self._refuse("true or false")
            return None
        self.foreign.read.add(self.key)
        return word in _TRUE

    def skip(self) -> None:
        """Take everything in the value as read: the caller knows what becomes of it."""
        self.foreign.read.add(self.key)

    @property
    def is_placeholder(self) -> bool:
        """Whether a value is to be filled in; `{NAME}` without quotes is a mapping to YAML."""
        if isinstance(self.value, Mapping):
            return len(self.value) == 1 and None in self.value.values()
        return isinstance(self.value, str) and _PLACEHOLDER.search(self.value) is not None

    def refuse(self, rule: Rule, *, cause: str, got: str, allowed: str = "", fix: str) -> None:
        """Report a fault of the value, once, and take it as read."""
        self.skip()
        finding = rule.finding(cause=f"{self.name}: {cause}", got=got, allowed=allowed, fix=fix, path=self.place)
        if finding not in self.foreign.findings:
            self.foreign.findings.append(finding)

    def _refuse(self, allowed: str) -> None:
        if self.is_placeholder:
            self.refuse_placeholder(allowed)
            return
        got = str(self.value)
        if isinstance(self.value, Mapping | list):
            got = "a list" if isinstance(self.value, list) else "a mapping"
        self.refuse(VALUE, cause="the value has the wrong type", got=got, allowed=allowed, fix=f"give {allowed}")

    def refuse_placeholder(self, allowed: str) -> None:
        """Report that a value must be filled in before the file can be imported."""
        got = f"{{{next(iter(self.value))}}}" if isinstance(self.value, Mapping) else str(self.value)
        self.refuse(
            PLACEHOLDER,
            cause="this placeholder has no value",
            got=got,
            allowed=allowed,
            fix=f"write the value, or give --set '{got}=VALUE'",
        )


def read_foreign(path: Path, *, content: bytes | None = None, fill: Mapping[str, str] | None = None) -> Foreign:
    """Read a file of another tool.

    Args:
        path: The file.
        content: What it holds, if it is not to be read, such as standard input.
        fill: Placeholders and their values, put in wherever they are.

    Returns:
        The file. Its findings say what is wrong with it, if it is no YAML.
    """
    text = read_text(path) if content is None else decode(content, path)
    if isinstance(text, Finding):
        return Foreign(str(path), Document(), findings=[_about_import(text)])
    for placeholder, value in (fill or {}).items():
        text = text.replace(placeholder, value)
    document = parse(text)
    found = Foreign(str(path), document)
    for place, finding in document.faults:
        found.findings.append(replace(_about_import(finding), path=f"{path}:{place.line}:{place.column}"))
    return found


def _about_import(finding: Finding) -> Finding:
    """A finding of the reader, which speaks of cluster files, about a file of another tool."""
    fix = "give the path of a file to import" if "cluster file" in finding.fix or "version: 1" in finding.fix else ""
    if finding.id == MAPPING.id:
        return KIND.finding(
            cause=finding.cause.replace("a cluster file", "a file to import"),
            got=finding.got,
            allowed=_KINDS,
            fix="give the path of a file to import",
            path=finding.path,
        )
    cause = finding.cause.replace("YAML tags are not used in cluster files", "YAML tags are not read")
    return replace(finding, cause=cause, fix=fix or finding.fix)


def unknown_kind(foreign: Foreign) -> Finding:
    """The finding about a file of a tool that is not known."""
    keys = ", ".join(map(str, foreign.document.data)) if isinstance(foreign.document.data, Mapping) else ""
    return KIND.finding(
        cause="the file is of no tool that is read",
        got=f"a file with {keys}" if keys else "a file without keys",
        allowed=_KINDS,
        fix="give another file; a CloudFormation template that makes a ParallelCluster has its configuration below "
        "ClusterConfiguration: save that as a file of its own",
        path=f"{foreign.name}:1:1",
    )
