"""The keywords that cfn-lint's schemas use beyond JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from .extra import optional_module

Json = dict[str, Any]


@cache
def validator_class() -> Any:
    """A JSON Schema validator (draft 2020-12) that knows cfn-lint's keywords."""
    jsonschema = optional_module("jsonschema")
    return jsonschema.validators.extend(
        jsonschema.Draft202012Validator,
        {
            "dependentExcluded": _dependent_excluded,
            "requiredOr": _required_or,
            "requiredXor": _required_xor,
        },
    )


def _error(message: str) -> Any:
    return optional_module("jsonschema").ValidationError(message)


def _required_xor(_validator: Any, names: list[str], value: Any, _schema: Json) -> Iterator[Any]:
    if isinstance(value, dict) and sum(name in value for name in names) != 1:
        yield _error(f"exactly one of {names} is required")


def _required_or(_validator: Any, names: list[str], value: Any, _schema: Json) -> Iterator[Any]:
    if isinstance(value, dict) and not any(name in value for name in names):
        yield _error(f"one of {names} is required")


def _dependent_excluded(
    _validator: Any, rules: dict[str, list[str]], value: Any, _schema: Json
) -> Iterator[Any]:
    if not isinstance(value, dict):
        return
    pairs = {frozenset((name, other)) for name, others in rules.items() for other in others if name != other}
    for pair in sorted(map(sorted, pairs)):
        if all(name in value for name in pair):
            yield _error(f"{pair[0]} may not be given together with {pair[1]}")
