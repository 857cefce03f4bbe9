"""AWS's protocols, by botocore's service models: query, EC2, REST-JSON and JSON 1.1; and Step Functions' letter case.

Source of the query protocols: botocore 1.44.5, `serialize.QuerySerializer`, `serialize.EC2Serializer` and the parsers
of the same names. Of Step Functions: its developer guide, "Learning to use AWS service SDK integrations" (PascalCase).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape

from ..clock import format_time
from ..service_shapes import service_model

Json = dict[str, Any]

# A run of capital letters, up to the first one of the next word.
_ACRONYM = re.compile(r"[A-Z]{2,}(?=[A-Z][a-z]|[^A-Za-z]|$)")


def _input_name(shape: Any, default: str, ec2: bool) -> str:
    names = shape.serialization
    if not ec2:
        return str(names.get("name", default))
    name = names.get("queryName") or names.get("name", default)
    return str(name[:1].upper() + name[1:])


def read_request(service: str, operation: str, form: Mapping[str, str]) -> Json:
    """Rebuild the parameters of a call from its flat form."""
    model = service_model(service)
    shape = model.operation_model(operation).input_shape
    ec2 = model.metadata["protocol"] == "ec2"
    read: Json = _read(shape, "", form, ec2) if shape is not None else {}
    return read


def _read(shape: Any, prefix: str, form: Mapping[str, str], ec2: bool) -> Any:
    if shape.type_name == "structure":
        found = {}
        for name, member in shape.members.items():
            path = f"{prefix}.{_input_name(member, name, ec2)}" if prefix else _input_name(member, name, ec2)
            if any(key == path or key.startswith(path + ".") for key in form):
                found[name] = _read(member, path, form, ec2)
        return found
    if shape.type_name == "list":
        flat = ec2 or shape.serialization.get("flattened")
        base = prefix if flat else f"{prefix}.{shape.member.serialization.get('name', 'member')}"
        items, number = [], 1
        while any(key == f"{base}.{number}" or key.startswith(f"{base}.{number}.") for key in form):
            items.append(_read(shape.member, f"{base}.{number}", form, ec2))
            number += 1
        return items
    text = form[prefix]
    if shape.type_name in ("integer", "long"):
        return int(text)
    return text == "true" if shape.type_name == "boolean" else text


def response_xml(service: str, operation: str, result: Json) -> str:
    """Write a result; members that the API model does not know are left out."""
    model = service_model(service)
    shape = model.operation_model(operation).output_shape
    body = "".join(_members(shape, result)) if shape is not None else ""
    space = escape(str(model.metadata.get("xmlNamespace", f"http://{service}.amazonaws.com/doc/")))
    if model.metadata["protocol"] == "ec2":
        return f'<{operation}Response xmlns="{space}"><requestId>emulated</requestId>{body}</{operation}Response>'
    return (
        f'<{operation}Response xmlns="{space}"><{operation}Result>{body}</{operation}Result>'
        f"<ResponseMetadata><RequestId>emulated</RequestId></ResponseMetadata></{operation}Response>"
    )


def error_xml(service: str, code: str, message: str) -> str:
    """Write an error."""
    inner = f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
    if service_model(service).metadata["protocol"] == "ec2":
        return f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>emulated</RequestID></Response>"
    return f"<ErrorResponse><Error><Type>Sender</Type>{inner}</Error><RequestId>emulated</RequestId></ErrorResponse>"


def _members(shape: Any, value: Json) -> list[str]:
    return [
        _element(str(member.serialization.get("name", name)), member, value[name])
        for name, member in shape.members.items()
        if value.get(name) is not None
    ]


def _element(tag: str, shape: Any, value: Any) -> str:
    if shape.type_name == "structure":
        return f"<{tag}>{''.join(_members(shape, value))}</{tag}>"
    if shape.type_name == "list":
        item = str(shape.member.serialization.get("name", "member"))
        if shape.serialization.get("flattened"):
            return "".join(_element(tag, shape.member, one) for one in value)
        return f"<{tag}>{''.join(_element(item, shape.member, one) for one in value)}</{tag}>"
    return f"<{tag}>{escape(_scalar(value))}</{tag}>"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return format_time(value) if isinstance(value, datetime) else str(value)


# Requests of AWS's REST-JSON protocol: which operation a method and a path mean, and its parameters. Source:
# botocore 1.44.5, `serialize.RestJSONSerializer` (members in the path, in the query and in the body).

_PLACE = re.compile(r"\{(\w+)\+?\}")


def read_rest_request(service: str, method: str, path: str, query: str, body: bytes) -> tuple[str, Json]:
    """The operation that a request means, and its parameters; an empty name if the API has none."""
    for name, wanted, expression in _routes(service):
        found = expression.fullmatch(path) if method == wanted else None
        if found is None:
            continue
        sent: Json = json.loads(body) if body else {}
        sent |= {key: unquote(value) for key, value in found.groupdict().items()}
        return name, _rest_members(service, name, sent, parse_qs(query))
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


def _rest_members(service: str, operation: str, sent: Json, query: dict[str, list[str]]) -> Json:
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


# Responses of AWS's JSON 1.1 protocol; requests are plain JSON. Source: botocore 1.44.5, `serialize.JSONSerializer`
# and the parser of the same name (times are seconds since 1970).


def operation_of(target: str) -> str:
    """The operation in an `X-Amz-Target` header, such as `AWSSimbaAPIService_v20180301.DescribeFileSystems`."""
    return target.rpartition(".")[2]


def response_json(result: Json) -> str:
    """Write a result."""
    return json.dumps(result, default=_plain)


def error_json(code: str, message: str) -> str:
    """Write an error."""
    return json.dumps({"__type": code, "message": message})


def _plain(value: object) -> object:
    return value.timestamp() if isinstance(value, datetime) else str(value)


# Members with a capital letter first, as CloudFormation and Step Functions name them, and with a small one. Source:
# Step Functions developer guide, "Learning to use AWS service SDK integrations in Step Functions" (parameters and
# results are in PascalCase, also where the API has camelCase), read 2026-11-22.


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
    found = next((member for member in shape.members if _states_name(member) == name), None)
    return (name, None) if found is None else (found, shape.members[found])


def _to_states(shape: Any, name: str) -> tuple[str, Any]:
    return _states_name(name), shape.members.get(name)


def _states_name(member: str) -> str:
    """A member as Step Functions names it, after AWS's SDK for Java: `Ttl` for `TTL`, and a capital letter first."""
    words = _ACRONYM.sub(lambda found: found[0].capitalize(), member)
    return words[:1].upper() + words[1:]


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
