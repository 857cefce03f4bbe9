"""The resource schemas bundled with cfn-lint, read from the installed package.

CloudFormation checks a resource against its registry schema before a provider sees it. cfn-lint ships those schemas
(with its own corrections); nothing of them is copied into this library.
"""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from cdk_gpu_clusters.catalogue import instance_types

from .faults import Fault

Json = dict[str, Any]

# AWS::EC2::CapacityReservation's PlacementGroupArn (schema of 2026-10-20) ends in `placement-group/^.{1,255}$`, which
# no text matches. Whether CloudFormation enforces it is not known, so either can be chosen: as it is published, or
# without the anchor.
_IMPOSSIBLE_ANCHOR = re.compile(r"(?<=[\w/])\^")
# Unicode classes, which Python's expressions spell otherwise.
_UNICODE_CLASSES = {
    r"\p{L}": r"\w",
    r"\p{N}": r"\d",
    r"\p{Z}": r"\s",
    r"\p{S}": r"$+<=>^`|~",
    r"\p{P}": r"!-/:-@\[-`{-~",
}


@cache
def _data() -> Path:
    found = importlib.util.find_spec("cfnlint")
    if found is None or found.origin is None:
        raise ImportError("cfn-lint, which has the schemas, is not installed")
    return Path(found.origin).parent / "data" / "schemas"


@cache
def _index(region: str) -> Mapping[str, str]:
    path = _data() / "providers" / f"{region}.json"
    if not path.exists():
        path = _data() / "providers" / "us-east-1.json"
    found: Mapping[str, str] = json.loads(path.read_text())
    return found


@cache
def known_instance_types() -> frozenset[str]:
    """Every EC2 instance type that cfn-lint knows in any Region."""
    path = _data() / "extensions" / "aws_ec2_instance" / "instancetype_enum.json"
    regions: Json = json.loads(path.read_text())
    return frozenset(name for region in regions.values() for name in _enum(region))


def _enum(region: Any) -> list[str]:
    return region.get("enum", []) if isinstance(region, dict) else []


def _leaf(pointer: str) -> str:
    return pointer.removeprefix("/properties/").replace("/", ".")


class ResourceSchema:
    """The registry schema of one resource type."""

    def __init__(self, document: Json, *, as_published: bool = False) -> None:
        published = {key: value for key, value in document.items() if key != "$id"}
        self.document: Json = _readable(published, as_published)
        self.type_name: str = document["typeName"]
        self.read_only = self._paths("readOnlyProperties")
        self.write_only = self._paths("writeOnlyProperties")
        self.create_only = self._paths("createOnlyProperties")
        self.conditional_create_only = self._paths("conditionalCreateOnlyProperties")
        self.primary_identifier = self._paths("primaryIdentifier")
        self._validator: Any = None

    def _paths(self, key: str) -> tuple[str, ...]:
        return tuple(_leaf(pointer) for pointer in self.document.get(key, ()))

    @property
    def create_only_names(self) -> frozenset[str]:
        """Top-level properties whose change replaces the resource."""
        return frozenset(path for path in self.create_only if "." not in path)

    @property
    def conditional_create_only_names(self) -> frozenset[str]:
        """Top-level properties whose change replaces the resource under conditions."""
        return frozenset(path.partition(".")[0] for path in self.conditional_create_only)

    def coerce(self, properties: Json) -> Json:
        """Turn text with a number or a boolean into one, and the reverse, as CloudFormation does."""
        coerced: Json = _coerce(properties, self.document, self.document)
        return coerced

    def faults(self, properties: Json) -> list[Fault]:
        """Everything the schema refuses, at every depth; `properties` are coerced already."""
        if self._validator is None:
            self._validator = validator_class()(self.document)
        faults = [
            Fault("schema", f"{name} is read-only and may not be set", name)
            for name in self.read_only
            if name in properties and name not in self.create_only
        ]
        return faults + [
            Fault("schema", error.message, "/".join(str(part) for part in error.absolute_path))
            for error in self._validator.iter_errors(properties)
        ]


@cache
def resource_schema(type_name: str, region: str = "us-east-1", *, as_published: bool = False) -> ResourceSchema | None:
    """The schema of a resource type, or None where the registry has none.

    Args:
        type_name: Such as `AWS::EC2::Subnet`.
        region: The Region.
        as_published: Keep patterns that no text matches.
    """
    digest = _index(region).get(type_name)
    if digest is None:
        return None
    document = json.loads((_data() / "resources" / f"{digest}.json").read_text())
    return ResourceSchema(document, as_published=as_published)


def _readable(schema: Any, as_published: bool) -> Any:
    """The schema with expressions that Python can read; one that it cannot read is left out, and checks nothing."""
    if isinstance(schema, list):
        return [_readable(item, as_published) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made: Json = {}
    for key, value in schema.items():
        if key == "pattern" and isinstance(value, str):
            if (expression := readable_expression(value, as_published=as_published)) is not None:
                made[key] = expression
        elif key == "patternProperties":
            made[key] = {readable_expression(name) or "": _readable(item, as_published) for name, item in value.items()}
        else:
            made[key] = _readable(value, as_published)
    return made


def readable_expression(text: str, *, as_published: bool = False) -> str | None:
    """An AWS pattern as Python reads it; None where it cannot."""
    for theirs, ours in _UNICODE_CLASSES.items():
        text = text.replace(theirs, ours)
    if not as_published:
        text = _IMPOSSIBLE_ANCHOR.sub("", text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # `[[` and `--` inside a class
            re.compile(text)
    except re.error:
        return None
    return text


def _resolved(schema: Json, root: Json) -> Json:
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    target: Any = root
    for part in reference[2:].split("/"):
        target = target[part]
    return _resolved(target, root)


def _coerce(value: Any, schema: Json, root: Json) -> Any:
    schema = _resolved(schema, root)
    if isinstance(value, dict):
        members = schema.get("properties", {})
        return {key: _coerce(item, members[key], root) if key in members else item for key, item in value.items()}
    if isinstance(value, list):
        items = schema.get("items")
        return [_coerce(item, items, root) for item in value] if isinstance(items, dict) else value
    return _coerce_scalar(value, schema.get("type"))


def _coerce_scalar(value: Any, kind: Any) -> Any:
    if kind == "string" and isinstance(value, bool):
        return str(value).lower()
    if kind == "string" and isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        return value
    if kind == "integer" and re.fullmatch(r"-?\d+", value):
        return int(value)
    if kind == "number" and re.fullmatch(r"-?\d+(\.\d+)?", value):
        return float(value)
    if kind == "boolean" and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value


@cache
def validator_class() -> Any:
    """A JSON Schema validator (draft 2020-12) that knows cfn-lint's keywords."""
    extend: Any = jsonschema.validators.extend
    return extend(
        jsonschema.Draft202012Validator,
        {"dependentExcluded": _dependent_excluded, "requiredOr": _required_or, "requiredXor": _required_xor},
    )


def _error(message: str) -> Any:
    return jsonschema.ValidationError(message)


def _required_xor(_validator: Any, names: list[str], value: Any, _schema: Json) -> Iterator[Any]:
    if isinstance(value, dict) and sum(name in value for name in names) != 1:
        yield _error(f"exactly one of {names} is required")


def _required_or(_validator: Any, names: list[str], value: Any, _schema: Json) -> Iterator[Any]:
    if isinstance(value, dict) and not any(name in value for name in names):
        yield _error(f"one of {names} is required")


def _dependent_excluded(_validator: Any, rules: dict[str, list[str]], value: Any, _schema: Json) -> Iterator[Any]:
    if not isinstance(value, dict):
        return
    pairs = {frozenset((name, other)) for name, others in rules.items() for other in others if name != other}
    for pair in sorted(map(sorted, pairs)):
        if all(name in value for name in pair):
            yield _error(f"{pair[0]} may not be given together with {pair[1]}")


def instance_type_exists(name: str) -> bool:
    """Whether EC2 has the type in any Region."""
    return name in instance_types() or name in known_instance_types()
