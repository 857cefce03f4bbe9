"""Route an operation to its model: by a Python call, or by an HTTP request in one of AWS's protocols."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from botocore import xform_name

from .. import alarms
from ..faults import ApiError
from ..permissions import authorize
from ..service_shapes import call_messages, service_model
from ..world import Caller, Json, World
from . import autoscaling, batch, budgets, ec2, eks, elbv2, fsx, pcs, resource_groups, route53, ssm
from .protocols import (
    as_input,
    as_result,
    error_json,
    error_status,
    error_xml,
    operation_of,
    read_request,
    read_rest_request,
    response_json,
    response_xml,
)

#: Each operation is a function of the module, of the name that botocore gives it in Python.
_MODULES: Mapping[str, ModuleType] = {
    "autoscaling": autoscaling,
    "batch": batch,
    "budgets": budgets,  # for state machines
    "cloudwatch": alarms,  # for state machines; the engine answers others
    "ec2": ec2,
    "eks": eks,
    "elbv2": elbv2,
    "fsx": fsx,
    "pcs": pcs,
    "resource-groups": resource_groups,
    "route53": route53,
    "ssm": ssm,
}
#: Services as requests are signed for them, and as botocore names them.
SIGNED_NAMES = {
    "autoscaling": "autoscaling",
    "batch": "batch",
    "ec2": "ec2",
    "eks": "eks",
    "elasticloadbalancing": "elbv2",
    "fsx": "fsx",
    "pcs": "pcs",
    "ssm": "ssm",
}
_WITHOUT_ENGINE = ("fsx", "pcs")
_REST = ("batch", "eks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An HTTP request: its path as it was sent, and the header `X-Amz-Target`, which only the JSON protocol has."""

    method: str
    path: str
    query: str
    target: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response."""

    status: int
    content_type: str
    text: str


def _operation(service: str, name: str) -> Callable[[World, Json], Json] | None:
    """The function that answers an operation; None where no model has it."""
    module = _MODULES.get(service)
    return getattr(module, xform_name(name), None) if module and name else None


def call(world: World, service: str, operation: str, params: Json) -> Json:
    """Perform an operation of a service, as botocore spells both; raises ApiError, `NotEmulated` if no model has it."""
    handler = _operation(service, operation)
    if handler is None:
        raise ApiError("NotEmulated", f"no model answers {service}:{operation}")
    for failure in world.failing_calls:
        if (failure["service"], failure["operation"]) == (service, operation) and failure.get("times", 1) > 0:
            failure["times"] = failure.get("times", 1) - 1
            if failure.get("performed"):  # its answer is lost
                handler(world, params)
            raise ApiError(failure["error"], "ordered by a test")
    return handler(world, params)


def call_from_states(world: World, service: str, operation: str, params: Json, caller: Caller) -> Json:
    """Perform an operation for a state machine, which names members with a capital letter first."""
    if _operation(service, operation) is None:
        return call(world, service, operation, params)
    sent: Json = as_input(service, operation, params)
    for message in call_messages(service, operation, sent):
        raise ApiError("ValidationException", message)
    authorize(world, caller, service, operation, sent)
    result: Json = as_result(service, operation, call(world, service, operation, sent))
    return result


def answer(world: World, signed_name: str, request: Request, caller: Caller | None = None) -> Answer | None:
    """Answer a request to the service in its signature; None if the engine answers it.

    Args:
        caller: The role that calls; None for the account's operator, who may do everything.
    """
    service = SIGNED_NAMES[signed_name]
    if service in _REST:
        sent = read_rest_request(service, request.method, request.path, request.query, request.body)
        return _answer_json(world, service, *sent, "application/json", caller)
    if request.target:
        operation = operation_of(request.target)
        if _operation(service, operation) is None and service not in _WITHOUT_ENGINE:
            return None
        kind = f"application/x-amz-json-{service_model(service).metadata['jsonVersion']}"
        return _answer_json(world, service, operation, json.loads(request.body or b"{}"), kind, caller)
    return _answer_query(world, service, dict(parse_qsl(request.body.decode(), keep_blank_values=True)), caller)


def denial(signed_name: str, request: Request, error: ApiError) -> Answer:
    """The refusal of a request to a service of the engine, in the request's protocol."""
    if request.target:
        return Answer(400, "application/x-amz-json-1.1", error_json(f"{error.code}Exception", error.message))
    if b"Action=" in request.body:
        return Answer(403, "text/xml", error_xml(SIGNED_NAMES.get(signed_name, signed_name), error.code, error.message))
    text = f"<Error><Code>{error.code}</Code><Message>{escape(error.message)}</Message></Error>"
    return Answer(403, "text/xml", text)


def _answer_json(world: World, service: str, operation: str, params: Json, kind: str, caller: Caller | None) -> Answer:
    try:
        if caller is not None:
            authorize(world, caller, service, operation, params)
        return Answer(200, kind, response_json(call(world, service, operation, params)))
    except ApiError as error:
        status = error_status(service, error.code) if service in _REST else 400
        return Answer(status, kind, error_json(error.code, error.message))


def _answer_query(world: World, service: str, form: dict[str, str], caller: Caller | None) -> Answer | None:
    operation, kind = form.get("Action", ""), "text/xml"
    if _operation(service, operation) is None:
        return None
    try:
        params = read_request(service, operation, form)
        if caller is not None:
            authorize(world, caller, service, operation, params)
        result = call(world, service, operation, params)
    except ApiError as error:
        status = 403 if error.code == "AccessDenied" else 400
        return Answer(status, kind, error_xml(service, error.code, error.message))
    return Answer(200, kind, response_xml(service, operation, result))
