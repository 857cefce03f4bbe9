"""The templates of an app as one: what a reference in one of them means."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

Json = Any
Properties = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Place:
    """A resource: its stack and its logical id."""

    stack: str
    logical_id: str


class Cloud:
    """Every template of one assembly, by stack name."""

    def __init__(self, templates: Mapping[str, Json]) -> None:
        self.templates = templates

    @classmethod
    def read(cls, directory: str) -> Cloud:
        """Read what `app.synth()` wrote."""
        return cls(
            {
                path.name.removesuffix(".template.json"): json.loads(path.read_text(encoding="utf-8"))
                for path in sorted(Path(directory).glob("*.template.json"))
            }
        )

    def of_type(self, resource_type: str) -> Mapping[Place, Properties]:
        """The properties of every resource of a type."""
        return self._by_type.get(resource_type, {})

    def properties(self, place: Place) -> Properties:
        """The properties of a resource."""
        return self.resource(place).get("Properties", {})  # type: ignore[no-any-return]

    def resource(self, place: Place) -> Mapping[str, Json]:
        """A resource, with what stands beside its properties."""
        resource: Mapping[str, Json] = self.templates[place.stack]["Resources"][place.logical_id]
        return resource

    def find(self, stack: str, value: Json) -> Place | None:
        """The resource that a value in a stack's template refers to, also over the output of another stack."""
        match value:
            case {"Ref": str(logical_id)} | {"Fn::GetAtt": [str(logical_id), _]}:
                known = self.templates[stack].get("Resources", {})
                return Place(stack, logical_id) if logical_id in known else None
            case {"Fn::GetStackOutput": {"StackName": str(other), "OutputName": str(output)}}:
                return self.find(other, self.templates[other]["Outputs"][output]["Value"])
        return None

    def identity(self, stack: str, value: Json) -> Place | str | None:
        """What a value names: a resource of the app, or the id of an existing one."""
        place = self.find(stack, value)
        found = self.literal(stack, value) if place is None else place
        return found if isinstance(found, (Place, str)) else None

    def literal(self, stack: str, value: Json) -> Json:
        """A value with references to outputs of other stacks followed."""
        match value:
            case {"Fn::GetStackOutput": {"StackName": str(other), "OutputName": str(output)}}:
                return self.literal(other, self.templates[other]["Outputs"][output]["Value"])
        return value

    @cached_property
    def _by_type(self) -> Mapping[str, Mapping[Place, Properties]]:
        found: dict[str, dict[Place, Properties]] = {}
        for stack, template in self.templates.items():
            for logical_id, resource in template.get("Resources", {}).items():
                of_type = found.setdefault(resource["Type"], {})
                of_type[Place(stack, logical_id)] = resource.get("Properties", {})
        return found


def walk(value: Json) -> Iterator[Json]:
    """A value and every value inside it."""
    yield value
    if isinstance(value, dict):
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)
