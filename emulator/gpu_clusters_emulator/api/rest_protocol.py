"""Requests of AWS's REST-JSON protocol: which operation a method and a path mean, and its parameters.

Source: botocore 1.44.5, `serialize.RestJSONSerializer` (members in the path, in the query and in the body).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote

from ..service_shapes import service_model

Json = dict[str, Any]

_PLACE = re.compile(r"\{(\w+)\+?\}")


def read_rest_request(service: str, method: str, path: str, query: str, body: bytes) -> tuple[str, Json]:
    """The operation that a request means, and its parameters; an empty name where the API has none.

    Args:
        service: Name as botocore spells it.
        method: HTTP method.
        path: Path as it was sent, with its percent signs.
        query: Query string.
        body: Body.
    """
    for name, wanted, expression in _routes(service):
        found = expression.fullmatch(path) if method == wanted else None
        if found is None:
            continue
        sent: Json = json.loads(body) if body else {}
        sent |= {key: unquote(value) for key, value in found.groupdict().items()}
        return name, _members(service, name, sent, parse_qs(query))
    return "", {}


def error_status(service: str, code: str) -> int:
    """HTTP status of an error, as the API's model has it; 400 for others."""
    shapes = service_model(service).error_shapes
    found = (one.metadata.get("error", {}).get("httpStatusCode") for one in shapes if one.name == code)
    return int(next(found, None) or 400)


@cache
def _routes(service: str) -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    model = service_model(service)
    routes = []
    for name in model.operation_names:
        http = model.operation_model(name).http
        uri = http["requestUri"].partition("?")[0]
        routes.append((name, http["method"], re.compile(_PLACE.sub(r"(?P<\1>[^/]+)", uri))))
    return tuple(routes)


def _members(service: str, operation: str, sent: Json, query: dict[str, list[str]]) -> Json:
    shape = service_model(service).operation_model(operation).input_shape
    return dict(_named(shape, sent, query)) if shape else {}


def _named(shape: Any, sent: Json, query: dict[str, list[str]]) -> Iterator[tuple[str, Any]]:
    for name, member in shape.members.items():
        key = member.serialization.get("name", name)
        if member.serialization.get("location") == "querystring":
            if key in query:
                yield name, query[key] if member.type_name == "list" else query[key][0]
        elif key in sent:
            yield name, sent[key]
