"""JSON Schema of the cluster file, for editors: completion, descriptions, and faults while typing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from cdk_gpu_clusters._version import REPOSITORY_URL
from cdk_gpu_clusters.catalogue.instances import instance_types
from cdk_gpu_clusters.catalogue.regions import regions

from .model import ClusterSpec

#: Where the schema is checked in; it is part of the wheel.
SCHEMA_FILE = Path(__file__).with_name("cluster.schema.json")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: Where the newest schema of this version of the cluster file is.
_RAW = REPOSITORY_URL.replace("https://github.com/", "https://raw.githubusercontent.com/")
_ID = f"{_RAW}/main/stacks/cdk_gpu_clusters_stacks/spec/{SCHEMA_FILE.name}"


class _Generator(GenerateJsonSchema):
    """pydantic's schema without the titles that it makes out of field names, and without defaults that say nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        default = made.get("default", ...)
        empty = isinstance(default, dict | list | tuple) and not any(
            default.values() if isinstance(default, dict) else default
        )
        if default is None or empty:
            made.pop("default")
        return made

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """A mapping whose keys follow a pattern has no other keys."""
        made = super().dict_schema(schema)
        return {**made, "additionalProperties": False} if "patternProperties" in made else made


_NUMBER_OR_RANGE = [
    {"required": ["nodes"], "not": {"anyOf": [{"required": ["min_nodes"]}, {"required": ["max_nodes"]}]}},
    {"required": ["min_nodes", "max_nodes"], "not": {"required": ["nodes"]}},
]


def _with_fleets(kind: str) -> dict[str, Any]:
    """A file that has a fleet of this kind."""
    fleets = {"properties": {"fleets": {"minProperties": 1}}, "required": ["fleets"]}
    return {"properties": {kind: fleets}, "required": [kind]}


def cluster_schema() -> dict[str, Any]:
    """The JSON Schema of cluster files, version 1."""
    made = ClusterSpec.model_json_schema(schema_generator=_Generator, mode="validation")
    for name in ("FleetSpec", "InferenceFleetSpec"):
        made["$defs"][name]["oneOf"] = _NUMBER_OR_RANGE
    made["anyOf"] = [_with_fleets(kind) for kind in ("training", "inference")]
    for part in made["$defs"].values():
        part.pop("title", None)
    _enumerate_values(made)
    return {"$schema": _DIALECT, "$id": _ID, **made, "title": "cluster.yaml, version 1"}


def _enumerate_values(made: dict[str, Any]) -> None:
    """Name the values of keys that only take what the catalogue knows, for completion in editors."""
    made["properties"]["region"] |= {"enum": sorted(regions())}
    made["$defs"]["InstanceType"] = {"type": "string", "enum": sorted(instance_types())}
    for part in made["$defs"].values():
        if key := part.get("properties", {}).get("instance_type"):
            name = {"$ref": "#/$defs/InstanceType"}
            # A key with a default that depends on the fleets also takes null.
            key |= {"anyOf": [name, {"type": "null"}]} if "anyOf" in key else name
            for rest in ("type", "minLength"):
                key.pop(rest, None)


def schema_text() -> str:
    """The schema as the text that is checked in."""
    return json.dumps(cluster_schema(), indent=2, ensure_ascii=False) + "\n"
