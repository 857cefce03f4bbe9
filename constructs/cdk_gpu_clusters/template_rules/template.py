"""A template's sections, checked for their shape once, and templates that are deployed beside each other."""

from __future__ import annotations

import errno
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from cdk_gpu_clusters._untrusted import read_bytes
from cdk_gpu_clusters.template_rules.document import (
    MAX_BYTES,
    Document,
    Path,
    Place,
    UnusableTemplate,
    no_places,
    read_json_text,
)

Json = Mapping[str, Any]
# An object whose first key has quotes; YAML may start with a bracket, too, and goes on otherwise.
_JSON = re.compile(r'\s*\{\s*["}]')
_SECTIONS = ("Parameters", "Mappings", "Conditions", "Resources", "Outputs")
_KINDS = {dict: "a mapping", list: "a list", str: "a text", bool: "a truth value", type(None): "nothing"}


class Template:
    """One CloudFormation template.

    Attributes:
        name: Its file, or another name to show.
        label: A name that no template linked with it has; empty if it is linked with none.
        parameters: The section of that name, as the four below.
        mappings: See above.
        conditions: See above.
        resources: See above; loops (`Fn::ForEach`) and other transforms are in `unread` instead.
        outputs: See above.
        unread: Keys of the resource section that only a transform of CloudFormation's can read.
        region: The Region that it is for, if known.
        stack_name: The name of its stack, if known.
        environment: Its account and Region as CDK writes them, if known; only what is in one place is linked.
    """

    def __init__(
        self,
        document: Document,
        *,
        name: str = "template",
        region: str | None = None,
        stack_name: str | None = None,
        environment: str = "",
    ) -> None:
        """Check the shape of every section.

        Raises:
            UnusableTemplate: If it is no template, or CloudFormation would refuse all of it.
        """
        self.name = name
        self.label = ""
        self.region = region
        self.stack_name = stack_name
        self.environment = environment
        self._locate = document.locate
        sections = _sections(document.data)
        self.parameters: Json = sections["Parameters"]
        self.mappings: Json = sections["Mappings"]
        self.conditions: Json = sections["Conditions"]
        self.outputs: Json = sections["Outputs"]
        self.unread: tuple[str, ...] = tuple(key for key in sections["Resources"] if key.startswith("Fn::"))
        self.resources: Json = {
            key: _resource(key, value) for key, value in sections["Resources"].items() if not key.startswith("Fn::")
        }
        self._names: dict[str, set[str]] | None = None
        self._by_type: dict[str, list[str]] = defaultdict(list)
        for logical_id, resource in self.resources.items():
            self._by_type[resource["Type"]].append(logical_id)
        if cycle := find_cycle(self.resources):
            raise UnusableTemplate(f"circular dependency: {' -> '.join(cycle)}", path=("Resources", cycle[0]))

    @classmethod
    def of(
        cls, data: Json, *, name: str = "template", region: str | None = None, stack_name: str | None = None
    ) -> Template:
        """A template that is given as values, without places.

        Raises:
            UnusableTemplate: As the constructor.
        """
        return cls(Document(data, no_places), name=name, region=region, stack_name=stack_name)

    def logical_ids(self, resource_type: str) -> list[str]:
        """The resources of a type, in the order of the text."""
        return self._by_type.get(resource_type, [])

    def logical_ids_naming(self, logical_id: str, resource_type: str) -> list[str]:
        """The resources of a type whose properties refer to a resource, in whichever case."""
        if self._names is None:
            self._names = {key: names_in(resource) for key, resource in self.resources.items()}
        return [key for key in self.logical_ids(resource_type) if logical_id in self._names[key]]

    def place(self, path: Path) -> Place:
        """The place of a path in the text."""
        return self._locate(path)


def read_template(
    file: File, *, region: str | None = None, stack_name: str | None = None, environment: str = ""
) -> Template:
    """Read a file of JSON or YAML.

    Args:
        file: The file.
        region: The Region that it is for, if known.
        stack_name: The name of its stack, if known.
        environment: Its account and Region as CDK writes them, if known.

    Raises:
        UnusableTemplate: If it cannot be read, or is no template; with its place where there is one.
    """
    document = read_document(file)
    try:
        return Template(document, name=str(file), region=region, stack_name=stack_name, environment=environment)
    except UnusableTemplate as fault:
        raise UnusableTemplate(fault.cause, fault.place or document.locate(fault.path)) from None


def read_document(file: File) -> Document:
    """Read a file of JSON or YAML as values.

    Raises:
        UnusableTemplate: If it cannot be read.
    """
    try:
        content = read_bytes(file, MAX_BYTES)
    except (OSError, ValueError) as fault:
        if getattr(fault, "errno", None) == errno.EFBIG:
            raise UnusableTemplate("the file is larger than 1 MB, the most that CloudFormation takes") from None
        raise UnusableTemplate(f"cannot be read: {getattr(fault, 'strerror', None) or fault}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = content.count(b"\n", 0, fault.start) + 1
        column = fault.start - content.rfind(b"\n", 0, fault.start)
        raise UnusableTemplate("this is not UTF-8 text", Place(line, column)) from None
    return read_text(text)


def read_text(text: str) -> Document:
    """Read JSON, or YAML where the text does not start as JSON does.

    Raises:
        UnusableTemplate: If it is neither.
    """
    if not text.strip():
        raise UnusableTemplate("the file is empty")
    return read_json_text(text) if _JSON.match(text) else _read_yaml(text)


def _read_yaml(text: str) -> Document:
    from cdk_gpu_clusters.template_rules.yaml_text import read_yaml_text  # only YAML pays for its parser

    return read_yaml_text(text)


def _sections(data: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(data, dict):
        raise UnusableTemplate(f"this is no CloudFormation template, but {kind_of(data)}")
    if "Resources" not in data:
        raise UnusableTemplate("this is no CloudFormation template: it has no Resources")
    given = {name: data[name] for name in _SECTIONS if data.get(name) is not None or name == "Resources"}
    return {name: _mapping(given.get(name, {}), (name,)) for name in _SECTIONS}


def _mapping(value: Any, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnusableTemplate(f"{'/'.join(map(str, path))} must be a mapping, but is {kind_of(value)}", path=path)
    return value


def _resource(logical_id: str, value: Any) -> dict[str, Any]:
    path = ("Resources", logical_id)
    resource = _mapping(value, path)
    if not isinstance(resource.get("Type"), str):
        raise UnusableTemplate(f"Resources/{logical_id} has no Type", path=path)
    for key in ("Properties", "Metadata"):
        if resource.get(key) is not None:
            _mapping(resource[key], (*path, key))
    return resource


def kind_of(value: Any) -> str:
    """What a value is, in a user's words."""
    return next((name for kind, name in _KINDS.items() if isinstance(value, kind)), "a number")


@dataclass(frozen=True, slots=True)
class Output:
    """An output of a template.

    Attributes:
        template: The template.
        value: Its value, not resolved.
        condition: The name of its condition, or None.
    """

    template: Template
    value: Any
    condition: Any = None


@dataclass(frozen=True, slots=True)
class NestedStack:
    """The resource that a nested stack is in its parent.

    Attributes:
        parent: The template around it.
        logical_id: Of the `AWS::CloudFormation::Stack`.
    """

    parent: Template
    logical_id: str

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What the parent gives to its parameters, not resolved."""
        given = (self.parent.resources[self.logical_id].get("Properties") or {}).get("Parameters")
        return given if isinstance(given, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estate:
    """Templates that are linked with each other, or a single template.

    Attributes:
        templates: The templates.
        exports: Outputs by the name of their export; None for a name that several have.
        outputs: Outputs by stack and name; None for those of stacks that have one name.
        nested: The nested stacks among the templates.
        readers: By template, those that read something of it.
    """

    templates: Sequence[Template]
    exports: Mapping[str, Output | None] = field(default_factory=dict)
    outputs: Mapping[tuple[str, str], Output | None] = field(default_factory=dict)
    nested: Mapping[Template, NestedStack] = field(default_factory=dict)
    readers: Mapping[Template, Sequence[Template]] = field(default_factory=dict)

    def nested_in(self, parent: Template, logical_id: str) -> Template | None:
        """The template of a nested stack; None if it is not known."""
        wanted = NestedStack(parent, logical_id)
        return next((template for template, stack in self.nested.items() if stack == wanted), None)


def output_of(template: Template, name: str) -> Output | None:
    """An output of a template by its name; None if there is none."""
    output = template.outputs.get(name)
    if not isinstance(output, dict) or "Value" not in output:
        return None
    return Output(template, output["Value"], output.get("Condition"))


def unambiguous(pairs: Iterable[tuple[Any, Output]]) -> dict[Any, Output | None]:
    """Outputs by a key; None for a key that several have."""
    found: dict[Any, Output | None] = {}
    for key, output in pairs:
        found[key] = None if key in found else output
    return found


_NAMES = re.compile(r"\$\{([^!}.][^}.]*)")


def find_cycle(resources: Mapping[str, Any]) -> list[str]:
    """The logical ids of one cycle, its first one again at the end; empty if there is none.

    References in a branch of `Fn::If` are left out: CloudFormation reads only the branch that it takes. A resource that
    refers to itself is left out too: a rule reports the one case there is (a security group).
    """
    uses = {
        logical_id: [used for used in dict.fromkeys(uses_of(resource)) if used in resources and used != logical_id]
        for logical_id, resource in resources.items()
    }
    done: set[str] = set()
    for start in uses:
        if start not in done and (cycle := _walk(start, uses, done)):
            return cycle
    return []


def _walk(start: str, uses: Mapping[str, list[str]], done: set[str]) -> list[str]:
    """Go down from one resource, without recursion: a chain may be as long as the template."""
    trail, rest = {start: None}, [iter(uses[start])]
    while rest:
        used = next(rest[-1], None)
        if used is None:
            rest.pop()
            done.add(trail.popitem()[0])
        elif used in trail:
            names = list(trail)
            return [*names[names.index(used) :], used]
        elif used not in done:
            trail[used] = None
            rest.append(iter(uses[used]))
    return []


def names_in(resource: Mapping[str, Any]) -> set[str]:
    """Every name that the properties of a resource refer to, in whichever branch."""
    return set(_references(resource.get("Properties"), branches=True))


def uses_of(resource: Mapping[str, Any]) -> Iterator[str]:
    """The logical ids that a resource waits for: by `DependsOn`, and by reference outside of `Fn::If`."""
    depends = resource.get("DependsOn", [])
    yield from (name for name in (depends if isinstance(depends, list) else [depends]) if isinstance(name, str))
    yield from _references(resource.get("Properties"), branches=False)


def _references(value: Any, *, branches: bool) -> Iterator[str]:
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            if len(value) == 1:
                key, argument = next(iter(value.items()))
                if key == "Fn::If" and not branches:
                    continue
                yield from _named(key, argument)
            pending += value.values()


def _named(function: str, argument: Any) -> Iterator[str]:
    """Names that an intrinsic function may take from the resources."""
    first = argument[0] if isinstance(argument, list) and argument else argument
    if not isinstance(first, str):
        return
    if function == "Ref":
        yield first
    elif function == "Fn::GetAtt":
        yield first.partition(".")[0]
    elif function == "Fn::Sub":
        own = argument[1] if isinstance(argument, list) and len(argument) > 1 else None
        yield from (name for name in _NAMES.findall(first) if not (isinstance(own, dict) and name in own))
