"""What a service's API model says of its input: enums, bounds, patterns, required members.

CloudFormation's properties carry the names of the API's members, and a service checks them as its model says. The
models are botocore's; nothing of them is copied into this library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from .extra import optional_module
from .faults import Fault
from .schemas import readable_expression


@cache
def service_model(service: str) -> Any:
    """Botocore's model of a service."""
    return optional_module("botocore.session").get_session().get_service_model(service)


def shape_faults(service: str, operation: str, given: Mapping[str, Any], path: str = "") -> Iterator[Fault]:
    """Faults of properties against the input of an operation; what the operation does not know is passed over.

    Args:
        service: Name as botocore spells it.
        operation: Name, such as `CreateTargetGroup`.
        given: The properties, as the schema types them.
        path: Where they stand in the resource.
    """
    shape = service_model(service).operation_model(operation).input_shape
    # Tags pass through CloudFormation's own hands, which leave an empty list out.
    yield from _faults(shape, {name: value for name, value in given.items() if name != "Tags"}, path)


def _faults(shape: Any, value: Any, path: str) -> Iterator[Fault]:
    if shape.type_name == "structure" and isinstance(value, Mapping):
        # At the top CloudFormation fills in what is required and missing, such as names and tokens.
        for name in shape.required_members if path else ():
            if name not in value:
                yield Fault(check="api-model", message=f"{name} is required", path=path)
        for name, item in value.items():
            if name in shape.members:
                yield from _faults(shape.members[name], item, f"{path}/{name}".lstrip("/"))
    elif shape.type_name == "list" and isinstance(value, list):
        for position, item in enumerate(value):
            yield from _faults(shape.member, item, f"{path}/{position}")
    for message in _messages(shape, value):
        yield Fault(check="api-model", message=message, path=path)


def _messages(shape: Any, value: Any) -> Iterator[str]:
    limits = shape.metadata
    if "enum" in limits and isinstance(value, str) and value not in limits["enum"]:
        yield f"{value!r} is not one of {', '.join(limits['enum'])}"
    pattern = readable_expression(limits.get("pattern", ""))
    if pattern and isinstance(value, str) and not re.fullmatch(pattern, value):
        yield f"{value!r} does not have the form {pattern}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    size = value if is_number else len(value) if isinstance(value, str | list) else None
    if size is None:
        return
    unit = "" if is_number else " characters" if isinstance(value, str) else " items"
    if "min" in limits and size < limits["min"]:
        yield f"at least {limits['min']}{unit}, got {size}"
    if "max" in limits and size > limits["max"]:
        yield f"at most {limits['max']}{unit}, got {size}"
