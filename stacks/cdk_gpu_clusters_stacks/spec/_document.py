"""The cluster file as text: plain values, the place of each, and findings at those places."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from cdk_gpu_clusters._untrusted import read_bytes
from cdk_gpu_clusters.errors import Finding

from ._rules import DUPLICATE_KEY, MAPPING, READABLE, YAML_SYNTAX
from ._syntax import explained, other_kind, traps

#: Path of a value from the root: keys of mappings and indexes of lists.
Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column, counted from 1."""

    line: int
    column: int


@dataclass(slots=True)
class Document:
    """Plain values of a YAML text, and the places of its keys and values.

    Attributes:
        data: Mappings, lists, text, numbers, booleans and None.
        keys: Place of each mapping key, by its path from the root.
        values: Place of each value, by its path from the root; mappings and lists are at their key.
        faults: What is wrong with the text, each fault with its place.
        unread: Paths of values that could not be read; they are None in `data`.
    """

    data: object = None
    keys: dict[Key, Place] = field(default_factory=dict)
    values: dict[Key, Place] = field(default_factory=dict)
    faults: list[tuple[Place, Finding]] = field(default_factory=list)
    unread: set[Key] = field(default_factory=set)

    def place_of(self, key: Key, *, at_key: bool = False) -> Place:
        """Place of a value (or of its key), or of the nearest thing around it that is in the text."""
        while key:
            place = (self.keys if at_key else self.values).get(key) or self.keys.get(key)
            if place is not None:
                return place
            key, at_key = key[:-1], True
        return Place(1, 1)


def dotted(path: Key) -> str:
    """A path as text, such as `training.fleets.trainers.nodes` or `network.subnet_ids[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True, slots=True)
class Fault:
    """A finding and its place.

    Attributes:
        key: Path of the value from the root.
        at_key: Whether the fault is the key itself, not its value.
    """

    key: Key
    finding: Finding
    at_key: bool = False


def faults_at(key: Key, findings: Iterable[Finding], *, at_key: bool = False) -> list[Fault]:
    """Place the findings of a rule at a key's value (or the key itself); its dotted name goes into the cause."""
    return [
        Fault(
            key,
            replace(
                finding,
                cause=f"{dotted(key)}: {finding.cause}",
                got=_in_yaml(finding.got),
                allowed=_in_yaml(finding.allowed),
                fix=_in_yaml(finding.fix),
            ),
            at_key,
        )
        for finding in findings
    ]


def _in_yaml(text: str) -> str:
    """Keywords of Python in a text, such as `efa=True`, as keys of the file."""
    return _KEYWORD.sub(lambda found: f"{found[1]}: {found[2].lower()}", text)


_KEYWORD = re.compile(r"\b([a-z][a-z_]+)=(True|False|[0-9]+)\b")


def under(key: Key, findings: Iterable[Finding]) -> list[Fault]:
    """As `faults_at`, at the part of the value that each finding's own path names (`ends_at`, `blocks[1].ends_at`)."""
    return [fault for finding in findings for fault in faults_at((*key, *_own(finding)), [finding])]


_PATH = re.compile(r"[a-z_]+(\[\d+\])?(\.[a-z_]+(\[\d+\])?)*")


def _own(finding: Finding) -> Key:
    if not _PATH.fullmatch(finding.path):
        return ()
    return tuple(int(part) if part.isdigit() else part for part in re.findall(r"\w+", finding.path))


# Reading the file from disk.

#: Some 200 fleets, for which no stack has enough resources (500; AWS CloudFormation user guide, quotas). The reader
#: takes about a second for so much.
MAX_BYTES = 64 * 1024

_FIX_PATH = "give the path of a cluster file; `gpu-clusters init` writes one"


def read_text(path: Path) -> str | Finding:
    """Read a cluster file.

    Returns:
        The text without byte-order mark, or the finding that explains what is wrong with the file.
    """
    where = f"{path}:1:1"
    try:
        raw = read_bytes(path, MAX_BYTES)
    except FileNotFoundError:
        return READABLE.finding(cause="there is no such file", got=str(path), fix=_FIX_PATH, path=where)
    except IsADirectoryError:
        return READABLE.finding(cause="this is a folder, not a file", got=str(path), fix=_FIX_PATH, path=where)
    except (OSError, ValueError) as fault:
        reason = (getattr(fault, "strerror", None) or str(fault)).lower()
        return READABLE.finding(
            cause=f"the file cannot be read: {reason}",
            got=str(path),
            fix=_FIX_PATH,
            path=where,
        )
    return decode(raw, path)


def decode(raw: bytes, path: Path) -> str | Finding:
    """The text of a file without byte-order mark, or the finding that explains why it is none."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        before = raw[: fault.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace").lstrip("\ufeff")) + 1
        return READABLE.finding(
            cause="the file is not UTF-8 text",
            got=f"byte 0x{raw[fault.start]:02x}",
            allowed="UTF-8",
            fix="save the file as UTF-8, or give the path of a cluster file if this is another kind of file",
            path=f"{path}:{line}:{column}",
        )


# Parsing. The node tree of ruamel.yaml is walked here instead of its loaders, for three reasons. Every key and value
# keeps its line and column. All duplicate keys are found, not only the first. Scalars stay as they were written: a time
# is text, `012` is not the number 12, and no tag makes an object.

#: Nodes after aliases are followed: more than a file of the greatest size has without aliases. Stops alias bombs.
_MAX_NODES = 40_000
_MAX_DEPTH = 40
_TAG = "tag:yaml.org,2002:"
_DEEP = re.compile(rf"(?:[\[{{]\s*){{{_MAX_DEPTH + 1}}}")
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_BOOL = {"true": True, "false": False}


def parse(text: str) -> Document:
    """Read YAML text; never raises."""
    document = Document()
    if deep := _DEEP.search(text):  # the reader takes seconds to find out
        document.faults.append(_too_deep(_place_in(text, deep.end() - 1)))
        return document
    try:
        with warnings.catch_warnings():
            # YAML 1.2.2, section 3.2.2.2: anchors need not be unique; an alias means the one before it.
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as fault:
        document.faults += _syntax_faults(fault, text)
        return document
    except ReaderError as fault:
        document.faults.append(_character_fault(fault, text))
        return document
    except RecursionError:
        document.faults.append(_too_deep(Place(1, 1)))
        return document
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError, NotImplementedError) as fault:
        # the reader's own slips on malformed text (directives, escapes) are faults of the text to a user
        cause = f"this is not YAML: {fault}".splitlines()[0]
        document.faults.append((Place(1, 1), YAML_SYNTAX.finding(cause=cause, fix="correct the file's syntax")))
        return document
    document.faults += _trap_faults(text, is_yaml=True)
    if not document.faults:
        _Builder(document).build_root(root, text)
    return document


def _trap_faults(text: str, *, is_yaml: bool) -> list[tuple[Place, Finding]]:
    return [
        (Place(one.line, one.column), YAML_SYNTAX.finding(cause=one.cause, got=one.got, fix=one.fix))
        for one in traps(text, is_yaml=is_yaml)
    ]


def _syntax_faults(fault: MarkedYAMLError, text: str) -> list[tuple[Place, Finding]]:
    if kind := other_kind(text):
        return [(Place(1, 1), _foreign(kind))]
    return _trap_faults(text, is_yaml=False) or [_syntax_fault(fault)]


def _foreign(kind: str) -> Finding:
    return MAPPING.finding(
        cause="this is not a cluster file", got=kind, allowed=_BEGINNING, fix="give the path of a cluster file"
    )


_BEGINNING = "version: 1, name: …, region: …, network: …, training: …"


def _syntax_fault(fault: MarkedYAMLError) -> tuple[Place, Finding]:
    mark, problem, fix = explained(fault)
    place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
    return place, YAML_SYNTAX.finding(cause=f"this is not YAML: {problem}", fix=fix)


def _character_fault(fault: ReaderError, text: str) -> tuple[Place, Finding]:
    return _place_in(text, fault.position), YAML_SYNTAX.finding(
        cause="YAML text cannot hold this control character",
        got=repr(text[fault.position : fault.position + 1]),
        fix="remove the character, or give the path of a cluster file if this is another kind of file",
    )


def _place_in(text: str, position: int) -> Place:
    before = text[:position]
    return Place(before.count("\n") + 1, position - before.rfind("\n"))


def _too_deep(place: Place) -> tuple[Place, Finding]:
    return place, YAML_SYNTAX.finding(
        cause="values are nested too deeply",
        allowed=f"at most {_MAX_DEPTH} levels",
        fix="remove the superfluous brackets or indentation",
    )


def _repeated(cause: str) -> Finding:
    return YAML_SYNTAX.finding(cause=cause, fix="write the values out instead of the alias")


class _Refused(Exception):
    """The text is out of bounds; nothing of it is used."""

    def __init__(self, place: Place, finding: Finding) -> None:
        self.place = place
        self.finding = finding
        super().__init__(str(finding))


class _Builder:
    """Turns the node tree into values, noting places and faults."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._open: set[int] = set()
        self._count = 0

    def build_root(self, root: Node | None, text: str) -> None:
        if root is None or (isinstance(root, ScalarNode) and root.value == ""):
            self._fault(root, MAPPING.finding(cause="the file is empty", fix="start with version: 1 and name: …"))
            return
        if not isinstance(root, MappingNode) and (other := other_kind(text)):
            self._fault(None, _foreign(other))
            return
        if not isinstance(root, MappingNode):
            kind = "a list" if isinstance(root, SequenceNode) else "a single value"
            finding = MAPPING.finding(
                cause="the file holds no mapping of keys to values",
                got=kind,
                allowed=_BEGINNING,
                fix="write key: value lines at the left margin, or give the path of a cluster file",
            )
            self._fault(root, finding)
            return
        try:
            self._document.data = self._value(root, ())
        except _Refused as refused:
            self._document.faults.append((refused.place, refused.finding))

    def _fault(self, node: Node | None, finding: Finding) -> None:
        place = Place(1, 1) if node is None else _place(node)
        self._document.faults.append((place, finding))

    def _value(self, node: Node, path: Key) -> object:
        has_text = isinstance(node, ScalarNode) and node.value != ""
        own = _place(node)
        self._document.values[path] = own if has_text else self._document.keys.get(path, own)
        self._limit(node, path)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        self._open.add(id(node))
        try:
            if isinstance(node, MappingNode) and _is_plain(node, "map"):
                return self._mapping(node, path)
            if isinstance(node, SequenceNode) and _is_plain(node, "seq"):
                return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        finally:
            self._open.discard(id(node))
        self._refuse_tag(node, path)
        return None

    def _limit(self, node: Node, path: Key) -> None:
        self._count += 1
        if id(node) in self._open:
            raise _Refused(_place(node), _repeated("an alias is inside its own anchor"))
        if len(path) > _MAX_DEPTH:
            raise _Refused(*_too_deep(_place(node)))
        if self._count > _MAX_NODES:
            raise _Refused(_place(node), _repeated("aliases repeat too many values"))

    def _refuse_tag(self, node: Node, path: Key) -> None:
        self._document.unread.add(path)
        finding = YAML_SYNTAX.finding(
            cause="YAML tags are not used in cluster files",
            got=str(node.tag).replace(_TAG, "!!"),
            fix="remove the tag, or quote a value that starts with !",
        )
        self._fault(node, finding)

    def _mapping(self, node: MappingNode, path: Key) -> dict[str, object]:
        made: dict[str, object] = {}
        merged: list[Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged.append(value_node)
                continue
            key = self._key(key_node)
            if key is None:
                self._document.unread.add(path)
                continue
            if key in made:
                self._fault(key_node, self._duplicate((*path, key)))
                continue
            self._document.keys[(*path, key)] = _place(key_node)
            made[key] = self._value(value_node, (*path, key))
        for source in merged:
            self._merge(source, path, made)
        return made

    def _duplicate(self, path: Key) -> Finding:
        first = self._document.keys[path]
        return DUPLICATE_KEY.finding(
            cause=f"{dotted(path)}: this key appears twice; the first is in line {first.line}",
            got=str(path[-1]),
            fix="remove or rename one of the two",
        )

    def _key(self, node: Node) -> str | None:
        if isinstance(node, ScalarNode):
            return self._text(node)
        self._fault(
            node,
            YAML_SYNTAX.finding(
                cause="a key must be a word",
                got="a list or mapping",
                fix="write key: value; fill a template such as {{ name }} in first",
            ),
        )
        return None

    def _text(self, node: ScalarNode) -> str | None:
        """Text of a scalar; the two halves that JSON writes for a character beyond U+FFFF become one."""
        try:
            return str(node.value).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            cause = "half a surrogate pair is no character"
            self._fault(node, YAML_SYNTAX.finding(cause=cause, got=ascii(node.value), fix="remove the escape"))
            return None

    def _merge(self, source: Node, path: Key, made: dict[str, object]) -> None:
        """Add what `<<` brings in; keys that are in the mapping itself win."""
        parts = source.value if isinstance(source, SequenceNode) else [source]
        for part in parts:
            if not isinstance(part, MappingNode) or id(part) in self._open:
                self._fault(
                    source,
                    YAML_SYNTAX.finding(cause="<< needs a mapping to merge", fix="write <<: *anchor of a mapping"),
                )
                return
            self._limit(part, path)
            self._open.add(id(part))
            for key_node, value_node in _own_pairs(part):
                key = self._key(key_node)
                if key is not None and key not in made:
                    self._document.keys[(*path, key)] = _place(key_node)
                    made[key] = self._value(value_node, (*path, key))
            for nested in [value for key, value in part.value if key.tag == f"{_TAG}merge"]:
                self._merge(nested, path, made)
            self._open.discard(id(part))

    def _scalar(self, node: ScalarNode, path: Key) -> object:
        text = self._text(node)
        if text is None:
            self._document.unread.add(path)
            return None
        if node.tag in (f"{_TAG}str", f"{_TAG}timestamp"):
            return text
        if node.tag == f"{_TAG}null":
            return None
        if node.tag == f"{_TAG}bool":
            return _BOOL.get(text.lower(), text)
        if node.tag == f"{_TAG}int":
            return int(text) if _INT.fullmatch(text) else text
        if node.tag == f"{_TAG}float":
            return _float(text)
        self._refuse_tag(node, path)
        # The value below the tag: without it, what depends on it would be faults, too.
        return int(text) if _INT.fullmatch(text) else text


def _own_pairs(node: MappingNode) -> Iterator[tuple[Node, Node]]:
    return ((key, value) for key, value in node.value if key.tag != f"{_TAG}merge")


def _float(text: str) -> object:
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _place(node: Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def _is_plain(node: Node, kind: str) -> bool:
    return bool(node.tag == f"{_TAG}{kind}")
