"""Read requests and write responses of the AWS query protocols from botocore's service models.

Source: botocore 1.44.5, `serialize.QuerySerializer`, `serialize.EC2Serializer` and the parsers of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from xml.sax.saxutils import escape

from ..clock import format_time
from ..service_shapes import service_model

Json = dict[str, Any]


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
