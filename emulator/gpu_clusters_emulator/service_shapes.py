"""What a service's API model states of its input: enums, bounds, patterns, required members.

CloudFormation's properties carry the names of the API's members, and a service checks them as its model states. The
models are botocore's; nothing of them is copied into this library.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import botocore.session
from botocore.validate import ParamValidator

from .faults import Fault
from .schemas import readable_expression


@cache
def service_model(service: str) -> Any:
    """Botocore's model of a service."""
    return botocore.session.get_session().get_service_model(service)


def shape_faults(service: str, operation: str, given: Mapping[str, Any], path: str = "") -> Iterator[Fault]:
    """Faults of properties against the input of an operation; what the operation does not know is passed over."""
    shape = service_model(service).operation_model(operation).input_shape
    # Tags pass through CloudFormation's own hands, which leave an empty list out.
    yield from _faults(shape, {name: value for name, value in given.items() if name != "Tags"}, path)


def _faults(shape: Any, value: Any, path: str) -> Iterator[Fault]:
    if shape.type_name == "structure" and isinstance(value, Mapping):
        # At the top CloudFormation fills in what is required and missing, such as names and tokens.
        given = {_member(shape, name): (name, item) for name, item in value.items()}
        for name in shape.required_members if path else ():
            if name not in given:
                yield Fault("api-model", f"{name} is required", path)
        for member, (name, item) in given.items():
            if member in shape.members:
                yield from _faults(shape.members[member], item, f"{path}/{name}".lstrip("/"))
    elif shape.type_name == "list" and isinstance(value, list):
        for position, item in enumerate(value):
            yield from _faults(shape.member, item, f"{path}/{position}")
    for message in _messages(shape, value):
        yield Fault("api-model", message, path)


def _member(shape: Any, name: str) -> str:
    """The API's name of a property: some services begin theirs with a small letter."""
    small = name[:1].lower() + name[1:]
    return small if small in shape.members else name


def call_messages(service: str, operation: str, params: Mapping[str, Any]) -> list[str]:
    """What the API model refuses of a call: missing and unknown members, types, lengths, enums and patterns."""
    shape = service_model(service).operation_model(operation).input_shape
    if shape is None:
        return []
    report = ParamValidator().validate(dict(params), shape)
    found = [report.generate_report()] if report.has_errors() else []
    return found + [str(fault) for fault in _faults(shape, params, "")]


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


# Key-value attributes of load balancers and target groups, as the API model documents each key. No schema knows the
# keys or their values. The texts are those of botocore's elbv2 model, which is AWS's own.

_ITEM = re.compile(r"<li>(.*?)</li>", re.DOTALL)
_NAME = re.compile(r"\s*<p>\s*<code>([a-z0-9_]+(?:\.[a-z0-9_]+)+)</code>\s*(?:-|\u2013)")
_TAG = re.compile(r"<[^>]+>")
_SECTION = re.compile(r"<p>The following attributes? (?:is|are) ")
_END_OF_SECTION_TITLE = re.compile(r"[.:]</p>|</p>")
_RANGE = re.compile(r"range is (\d+)(?:-| second to 1 week \()(\d+)")
_DEFAULT = re.compile(r"(?i:the) default (?:value )?is (?:1 day \()?(?:<code>)?([\w.]+)")
_VALUES = re.compile(r"(?i:the) (?:possible )?values? (?:is|are|for this attribute is) (.*?)\.(?:\s|$)", re.DOTALL)
_CODE = re.compile(r"<code>([\w.]+)</code>")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedAttribute:
    """A key of a list of key-value attributes, as the API model documents it.

    Attributes:
        section: What has it, in the model's words, such as `supported by only Application Load Balancers`.
        default: Value of a new resource; None where the model names none.
        bounds: Least and most, for numbers.
        values: Allowed words; empty where the model names none.
    """

    section: str
    default: str | None
    bounds: tuple[int, int] | None
    values: tuple[str, ...]

    def fits(self, kind: str) -> bool:
        """Whether load balancers of a kind have it: `Application`, `Network` or `Gateway`."""
        return "all load balancers" in self.section or f"{kind} Load Balancer" in self.section

    def message(self, value: str) -> str:
        """What is wrong with a value; empty if nothing is."""
        if self.bounds is not None:
            least, most = self.bounds
            if value == self.default or (value.isdigit() and least <= int(value) <= most):
                return ""
            return f"is {least:,} to {most:,}, got {value}"
        if self.values and value not in self.values:
            return f"is one of {', '.join(self.values)}, got {value}"
        return ""


@cache
def documented_attributes(service: str, shape: str) -> Mapping[str, DocumentedAttribute]:
    """The keys of a shape of `Key` and `Value`, such as `LoadBalancerAttribute`, from its documentation."""
    text = html.unescape(service_model(service).shape_for(shape).members["Key"].documentation)
    found: dict[str, DocumentedAttribute] = {}
    for part in _SECTION.split(text)[1:]:
        section = _END_OF_SECTION_TITLE.split(part, maxsplit=1)[0]
        for item in _ITEM.findall(part):
            name = _NAME.match(item)
            if name is not None:
                found.setdefault(name[1], _documented(section, item[name.end() :]))
    return MappingProxyType(found)


def _documented(section: str, text: str) -> DocumentedAttribute:
    bounds = _RANGE.search(_TAG.sub("", text))
    default = _DEFAULT.search(text)
    values = _VALUES.search(text)
    words = tuple(_CODE.findall(values[1])) if values else ()
    return DocumentedAttribute(
        section=section,
        default=default[1].rstrip(".") if default else None,
        bounds=(int(bounds[1]), int(bounds[2])) if bounds else None,
        values=words if len(words) > 1 else (),
    )
