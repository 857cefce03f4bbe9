"""A template's sections, checked for their shape once, so that nothing behind them meets a wrong type there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path as File
from typing import Any

from cdk_gpu_clusters.policy.cycles import find_cycle, names_in
from cdk_gpu_clusters.policy.document import MAX_BYTES, Document, Path, Place, UnusableTemplate, no_places
from cdk_gpu_clusters.policy.json_text import read_json_text

Json = Mapping[str, Any]
# An object whose first key has quotes; YAML may start with a bracket, too, and goes on otherwise.
_JSON = re.compile(r'\s*\{\s*["}]')
_SECTIONS = ("Parameters", "Mappings", "Conditions", "Resources", "Outputs")
_KINDS = {dict: "a mapping", list: "a list", str: "a text", bool: "a truth value", type(None): "nothing"}


class Template:
    """One CloudFormation template.

    Attributes:
        name: Its file, or another name to show.
        label: Tells it from templates that it is linked with; empty if it stands alone.
        parameters: The section of that name, as the four below.
        mappings: See above.
        conditions: See above.
        resources: See above; loops (`Fn::ForEach`) and other transforms stand in `unread` instead.
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
            UnusableTemplate: If it is no template, or CloudFormation would refuse it as a whole.
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
            key: _resource(key, value)
            for key, value in sections["Resources"].items()
            if not key.startswith("Fn::")
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
        """Where a path stands in the text."""
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
        return Template(
            document, name=str(file), region=region, stack_name=stack_name, environment=environment
        )
    except UnusableTemplate as fault:
        raise UnusableTemplate(fault.cause, fault.place or document.locate(fault.path)) from None


def read_document(file: File) -> Document:
    """Read a file of JSON or YAML as values.

    Raises:
        UnusableTemplate: If it cannot be read.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except OSError as fault:
        raise UnusableTemplate(f"cannot be read: {fault.strerror or fault}") from None
    if len(content) > MAX_BYTES:
        raise UnusableTemplate("the file is larger than 1 MB, the most that CloudFormation takes")
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
    try:
        from cdk_gpu_clusters.policy.yaml_text import read_yaml_text  # only YAML pays for its parser
    except ImportError:
        raise UnusableTemplate("YAML templates need PyYAML: pip install 'cdk-gpu-clusters[cli]'") from None
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
        raise UnusableTemplate(
            f"{'/'.join(map(str, path))} must be a mapping, but is {kind_of(value)}", path=path
        )
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
