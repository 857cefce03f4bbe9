"""Kubernetes objects held against the schemas of a Kubernetes version, strictly.

Built-in kinds have the schemas of the PyPI package ``kubernetes-validate``, custom kinds those of ``tests/crds``.
Stricter than an API server: a field that it would drop in silence is a fault here, too.
Rules in CEL (`x-kubernetes-validations`) are evaluated for the kinds whose files have them, by the PyPI package
``common-expression-language``. Rules about a change (`oldSelf`) are not: there is no former object.
Not told: admission by a webhook, names that must exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import cel
import jsonschema
import yaml
from kubernetes_validate.utils import SchemaNotFoundError, schema_contents
from referencing import Registry, Resource

CRDS = Path(__file__).parents[1] / "crds"
SOURCES = CRDS / "SOURCES.yaml"

_BASE = "https://kubernetes.io/api"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LONGEST_MESSAGE = 300

Schema = dict[str, Any]


class WrongObjectsError(AssertionError):
    """Objects that an API server would refuse or cut; the message has every fault."""


def check_objects(objects: Iterable[Mapping[str, Any]], version: str) -> int:
    """Count the objects if each fits the schema of its kind.

    Args:
        objects: Kubernetes objects, custom ones among them.
        version: Minor version of Kubernetes, such as ``1.36``.

    Raises:
        WrongObjectsError: A field is unknown, missing or of a wrong type, or a kind has no schema in that version.
    """
    found = list(objects)
    faults = [
        f"{_title(item, number)}: {fault}" for number, item in enumerate(found, 1) for fault in _faults(item, version)
    ]
    if faults:
        head = f"{len(faults)} faults in {len(found)} objects for Kubernetes {version}"
        raise WrongObjectsError("\n  ".join([head, *faults]))
    return len(found)


def _title(item: Mapping[str, Any], number: int) -> str:
    metadata = item.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or f"object {number}"
    return f"{item.get('apiVersion')} {item.get('kind')} {name}"


def _faults(item: Mapping[str, Any], version: str) -> Iterator[str]:
    validator = _validator(str(item.get("apiVersion")), str(item.get("kind")), version)
    if validator is None:
        yield "no schema for this kind"
        return
    for error in sorted(validator.iter_errors(item), key=lambda error: error.json_path):
        message = error.message
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[:_LONGEST_MESSAGE]}..."
        yield f"{error.json_path.removeprefix('$').removeprefix('.') or 'object'}: {message}"
    if validator.is_valid(item):  # a rule may read any required field
        schema: Any = validator.schema
        known = schema.get("definitions", {})
        whole = known.get("object", {})
        yield from _broken_rules(whole, _with_defaults(whole, item, known), "", known)
    metadata = item.get("metadata") or {}
    if not (metadata.get("name") or metadata.get("generateName")):
        yield "metadata: neither name nor generateName"


def _meant(schema: Schema, known: Schema) -> Schema:
    """A schema, or the one that it names."""
    found: Schema = known.get(str(schema.get("$ref", "")).rpartition("/")[2], schema)
    return found


def _with_defaults(schema: Schema, value: Any, known: Schema) -> Any:
    """A value as the API server has it when it evaluates rules."""
    schema = _meant(schema, known)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [_with_defaults(schema["items"], item, known) for item in value]
    if not isinstance(value, Mapping):
        return value
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    filled = {**{name: field["default"] for name, field in fields.items() if "default" in field}, **value}
    return {
        name: _with_defaults(found, item, known) if isinstance(found := fields.get(name, others), dict) else item
        for name, item in filled.items()
    }


def _broken_rules(schema: Schema, value: Any, path: str, known: Schema) -> Iterator[str]:
    """What the rules in CEL find in a value and in what it holds."""
    schema = _meant(schema, known)
    for rule in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" not in rule["rule"] and not _holds(rule["rule"], value):
            yield f"{path or 'object'}: {rule['message']}"
    if isinstance(value, Mapping):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, item in value.items():
            inner = fields.get(name, others)
            if isinstance(inner, dict):
                yield from _broken_rules(inner, item, f"{path}.{name}".removeprefix("."), known)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _broken_rules(schema["items"], item, f"{path}[{index}]", known)


def _holds(rule: str, value: Any) -> bool:
    """Whether a rule holds, with the functions that Kubernetes adds to CEL ("Common Expression Language in Kubernetes",
    the libraries for regular expressions and for strings), as far as rules here call them."""
    context = cel.Context()
    context.add_function("find", lambda text, pattern: found[0] if (found := re.search(pattern, text)) else "")
    # CEL's own, of which the package knows the method alone.
    context.add_function("matches", lambda text, pattern: re.search(pattern, text) is not None)
    context.add_function("split", lambda text, separator: text.split(separator))
    context.add_variable("self", value)
    return bool(_compiled(rule).execute(context))


@cache
def _compiled(rule: str) -> cel.Program:
    return cel.compile(rule)


@cache
def _validator(api_version: str, kind: str, version: str) -> jsonschema.Draft202012Validator | None:
    group, _, number = api_version.rpartition("/")
    schema = _custom(group, kind, number) or _built_in(group, kind, number, version)
    if schema is None:
        return None
    return jsonschema.Draft202012Validator(schema, registry=_registry(version))


@cache
def _registry(version: str) -> Registry[Any]:
    definitions: Resource[Any] = Resource.from_contents(_read("_definitions", version))
    return definitions @ Registry()


def _read(name: str, version: str) -> Any:
    return schema_contents(f"kubernetes-json-schema/v{version}.0-local-strict/{name}.json", version)


def _built_in(group: str, kind: str, number: str, version: str) -> Schema | None:
    # The package names its files by the first word of the group: rbac for rbac.authorization.k8s.io.
    words = [kind.lower(), group.partition(".")[0], number]
    try:
        schema: Schema = _read("-".join(word for word in words if word), version)
    except (FileNotFoundError, SchemaNotFoundError):
        return None
    # So another group with that first word, and a type that is no kind, must be told apart.
    wanted = {"group": group, "kind": kind, "version": number}
    return schema if wanted in schema.get("x-kubernetes-group-version-kind", []) else None


def _custom(group: str, kind: str, number: str) -> Schema | None:
    path = CRDS / f"{group}_{kind.lower()}.yaml"
    found = yaml.safe_load(path.read_text("utf-8")) if path.is_file() else {}
    if number not in found.get("versions", {}) or (found["group"], found["kind"]) != (group, kind):
        return None
    return {
        "$id": f"{_BASE}/{group}/{kind}/{number}",
        "$ref": "#/definitions/object",
        "definitions": {
            **{name: _strict(schema) for name, schema in found.get("definitions", {}).items()},
            "object": _whole(found, number),
        },
    }


def _whole(found: Schema, number: str) -> Schema:
    """The schema of an object: what a CRD leaves to the API server is added."""
    schema = found["versions"][number]
    while "$ref" in schema:
        schema = found["definitions"][schema["$ref"].rpartition("/")[2]]
    own = {
        "apiVersion": {"const": f"{found['group']}/{number}"},
        "kind": {"const": found["kind"]},
        "metadata": {"$ref": _OBJECT_META},
    }
    required = ["apiVersion", "kind", "metadata", *schema.get("required", [])]
    return _strict({**schema, "properties": {**schema["properties"], **own}, "required": required})


def _strict(schema: Schema) -> Schema:
    """A structural schema in which an unknown field is a fault, with references that JSON Schema understands."""
    if "$ref" in schema:
        name = schema["$ref"]
        return {"$ref": name if name.startswith("#") else f"{_BASE}/_definitions.json#/$defs/{name}"}
    strict = dict(schema)
    if "properties" in schema:
        strict["properties"] = {name: _strict(field) for name, field in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            strict[key] = _strict(schema[key])
    if schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
        strict.setdefault("additionalProperties", False)
    return strict
