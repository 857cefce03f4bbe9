"""Members with a capital letter first, as CloudFormation and Step Functions name them, and with a small one.

Source: Step Functions developer guide, "Learning to use AWS service SDK integrations in Step Functions" (parameters and
results are in PascalCase, also where the API has camelCase), read 2026-11-22.
"""

from __future__ import annotations

from typing import Any

from ..service_shapes import service_model


def with_small_letters(value: Any) -> Any:
    """A value whose members, at every depth, begin with a small letter; keys of a map are not to be in it."""
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: with_small_letters(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_small_letters(item) for item in value]
    return value


def as_input(service: str, operation: str, value: Any) -> Any:
    """A state machine's parameters with the members as the API names them."""
    return _renamed(service_model(service).operation_model(operation).input_shape, value, _to_api)


def as_result(service: str, operation: str, value: Any) -> Any:
    """An API's answer with the members as state machines name them."""
    return _renamed(service_model(service).operation_model(operation).output_shape, value, _to_states)


def _to_api(shape: Any, name: str) -> tuple[str, Any]:
    """The member that Step Functions calls so; a name that the API lacks stays, for the service to refuse."""
    small = name[:1].lower() + name[1:]
    found = name if name in shape.members else small
    return (found, shape.members[found]) if found in shape.members else (name, None)


def _to_states(shape: Any, name: str) -> tuple[str, Any]:
    return name[:1].upper() + name[1:], shape.members.get(name)


def _renamed(shape: Any, value: Any, rename: Any) -> Any:
    if shape is None:
        return value
    if shape.type_name == "structure" and isinstance(value, dict):
        renamed = ((rename(shape, name), item) for name, item in value.items())
        return {name: _renamed(member, item, rename) for (name, member), item in renamed}
    if shape.type_name == "list" and isinstance(value, list):
        return [_renamed(shape.member, item, rename) for item in value]
    if shape.type_name == "map" and isinstance(value, dict):
        return {key: _renamed(shape.value, item, rename) for key, item in value.items()}
    return value
