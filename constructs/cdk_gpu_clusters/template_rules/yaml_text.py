"""Read YAML templates with CloudFormation's short tags.

PyYAML's C parser builds the node tree, which is walked here: its loaders would drop the places and the tags, accept a
key twice, and turn dates into objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from cdk_gpu_clusters.template_rules.document import MAX_DEPTH, Document, Path, Place, UnusableTemplate

#: A template of 1 MB holds fewer; more come only from aliases of aliases, and would take seconds.
_MAX_VALUES = 100_000
# Each value but the first has one of these before it.
_SEPARATORS = "-:,[{"
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = ("!Ref", "!Condition")
# Intrinsic functions of the CloudFormation template reference.
_FUNCTIONS = frozenset(
    (
        *("And", "Base64", "Cidr", "Contains", "EachMemberEquals", "EachMemberIn", "Equals", "FindInMap"),
        *("GetAtt", "GetAZs", "GetStackOutput", "If", "ImportValue", "Join", "Length", "Not", "Or", "RefAll"),
        *("Select", "Split", "Sub", "ToJsonString", "Transform", "ValueOf", "ValueOfAll"),
    )
)
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*([eE][-+]?[0-9]{1,2})?")
_TRUE = frozenset(("true", "yes", "on"))
# Indentation or brackets that no template has; libyaml takes seconds, or worse, to find out.
_DEEP = re.compile(rf"(?:[\[{{]\s*){{{MAX_DEPTH + 1}}}|(?:- ){{{MAX_DEPTH + 1}}}|(?:\? ){{{MAX_DEPTH + 1}}}")


def read_yaml_text(text: str) -> Document:
    """Read YAML.

    Raises:
        UnusableTemplate: If it is not YAML, or not what a template may be.
    """
    if deep := _DEEP.search(text):
        raise UnusableTemplate("values are nested too deeply", _in_text(text, deep.start()))
    if sum(map(text.count, _SEPARATORS)) > 2 * _MAX_VALUES:
        raise UnusableTemplate("the template holds too many values")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else None
        raise UnusableTemplate(
            f"this is not YAML: {fault.problem or fault.context or 'it cannot be read'}", place
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        raise UnusableTemplate(f"this is not YAML: {str(fault).splitlines()[0]}") from None
    if root is None:
        raise UnusableTemplate("the file is empty")
    return Document(_Builder().value(root, 0), lambda path: _locate(root, path))


class _Builder:
    """Turns nodes into values; an anchor's value is made once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()

    def value(self, node: Node, depth: int) -> Any:
        return self._sized(node, depth)[0]

    def _sized(self, node: Node, depth: int) -> tuple[Any, int]:
        """The value, and how many values it holds with every alias written out."""
        if isinstance(node, ScalarNode):
            return _tagged(node, _scalar(node)), 1
        if id(node) in self._made:
            return self._made[id(node)]
        if id(node) in self._open:
            raise UnusableTemplate("an alias is inside its own anchor", _start(node))
        if depth > MAX_DEPTH:
            raise UnusableTemplate("values are nested too deeply", _start(node))
        self._open.add(id(node))
        value, size = self._collection(node, depth)
        self._open.discard(id(node))
        if size > _MAX_VALUES:
            raise UnusableTemplate("aliases repeat too many values", _start(node))
        self._made[id(node)] = _tagged(node, value), size
        return self._made[id(node)]

    def _collection(self, node: Node, depth: int) -> tuple[Any, int]:
        if isinstance(node, SequenceNode):
            return self._sequence(node, depth)
        if isinstance(node, MappingNode):
            return self._mapping(node, depth)
        raise UnusableTemplate("this is not YAML", _start(node))

    def _sequence(self, node: SequenceNode, depth: int) -> tuple[list[Any], int]:
        parts = [self._sized(item, depth + 1) for item in node.value]
        return [value for value, _ in parts], 1 + sum(size for _, size in parts)

    def _mapping(self, node: MappingNode, depth: int) -> tuple[dict[str, Any], int]:
        made: dict[str, Any] = {}
        total = 1
        for key_node, value_node in node.value:
            key = _key(key_node)
            if key in made:
                raise UnusableTemplate(f"the key {key!r} is used twice in one mapping", _start(key_node))
            made[key], size = self._sized(value_node, depth + 1)
            total += size
        return made, total


def _key(node: Node) -> str:
    if not isinstance(node, ScalarNode):
        raise UnusableTemplate("a key must be a word, not a list or a mapping", _start(node))
    if node.tag == f"{_TAG}merge":
        raise UnusableTemplate("CloudFormation does not take YAML's merge key <<", _start(node))
    return str(node.value)


def _scalar(node: ScalarNode) -> Any:
    text = str(node.value)
    kind = node.tag.removeprefix(_TAG)
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in _TRUE
    if kind == "int" and _INT.fullmatch(text):
        return int(text)
    if kind == "float" and _FLOAT.fullmatch(text):
        return float(text)
    return text


def _tagged(node: Node, value: Any) -> Any:
    """The value, under the long name of its tag if it has a short one."""
    if node.tag.startswith(_TAG):
        if node.tag.removeprefix(_TAG) in ("binary", "set", "omap", "pairs") or "/" in node.tag:
            raise UnusableTemplate(f"the YAML tag {node.tag!r} is none of CloudFormation's", _start(node))
        return value
    name = _function(node)
    if name == "Fn::GetAtt" and isinstance(value, str):
        return {name: value.split(".", 1)}
    return {name: value}


def _function(node: Node) -> str:
    if node.tag in _PLAIN_TAGS:
        return str(node.tag[1:])
    if node.tag[1:] in _FUNCTIONS:
        return f"Fn::{node.tag[1:]}"
    raise UnusableTemplate(f"the YAML tag {node.tag!r} is none of CloudFormation's", _start(node))


def _locate(root: Node, path: Path) -> Place:
    node, found = root, _start(root)
    for part in path:
        if isinstance(part, str) and not node.tag.startswith(_TAG) and part == _function(node):
            continue  # the tag itself
        step = next(_steps(node, part), None)
        if step is None:
            break
        found, node = _start(step[0]), step[1]
    return found


def _steps(node: Node, part: str | int) -> Iterator[tuple[Node, Node]]:
    """The key and the value of a part of a node."""
    if isinstance(node, MappingNode):
        yield from ((key, value) for key, value in node.value if key.value == part)
    elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        yield node.value[part], node.value[part]


def _start(node: Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def _in_text(text: str, position: int) -> Place:
    return Place(text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position))
