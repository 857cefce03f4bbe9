"""Route an operation to its model: by a Python call, or by an HTTP request in one of AWS's protocols."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from ..alarms import describe_alarms
from ..faults import ApiError
from ..world import Json, World
from . import autoscaling, ec2, eks, elbv2, fsx
from .json_protocol import error_json, operation_of, response_json
from .letter_case import as_input, as_result
from .query_protocol import error_xml, read_request, response_xml
from .rest_protocol import error_status, read_rest_request

OPERATIONS: Mapping[str, Mapping[str, Callable[[World, Json], Json]]] = {
    "autoscaling": autoscaling.OPERATIONS,
    "cloudwatch": {"DescribeAlarms": describe_alarms},  # for state machines; the engine answers others
    "ec2": ec2.OPERATIONS,
    "eks": eks.OPERATIONS,
    "elbv2": elbv2.OPERATIONS,
    "fsx": fsx.OPERATIONS,
}
#: Services as requests are signed for them, and as botocore names them.
SIGNED_NAMES = {
    "autoscaling": "autoscaling",
    "ec2": "ec2",
    "eks": "eks",
    "elasticloadbalancing": "elbv2",
    "fsx": "fsx",
}
_WITHOUT_ENGINE = ("fsx",)
_REST = ("eks",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An HTTP request.

    Attributes:
        method: Method.
        path: Path as it was sent, with its percent signs.
        query: Query string.
        target: Header `X-Amz-Target` of the JSON protocol; empty in the others.
        body: Body.
    """

    method: str
    path: str
    query: str
    target: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP response."""

    status: int
    content_type: str
    text: str


def call(world: World, service: str, operation: str, params: Json) -> Json:
    """Perform an operation.

    Args:
        world: The account.
        service: Service name as botocore spells it, such as `autoscaling`.
        operation: Operation name, such as `SetDesiredCapacity`.
        params: Its parameters.

    Raises:
        ApiError: What the service answers; `NotEmulated` where no model has the operation.
    """
    handler = OPERATIONS.get(service, {}).get(operation)
    if handler is None:
        raise ApiError("NotEmulated", f"no model answers {service}:{operation}")
    return handler(world, params)


def call_from_states(world: World, service: str, operation: str, params: Json) -> Json:
    """Perform an operation for a state machine, which names members with a capital letter first.

    Raises:
        ApiError: As `call`.
    """
    if operation not in OPERATIONS.get(service, {}):
        return call(world, service, operation, params)
    result: Json = as_result(
        service, operation, call(world, service, operation, as_input(service, operation, params))
    )
    return result


def answer(world: World, signed_name: str, request: Request) -> Answer | None:
    """Answer a request; None where the engine shall answer.

    Args:
        world: The account.
        signed_name: Service in the request's signature.
        request: The request.
    """
    service = SIGNED_NAMES[signed_name]
    if service in _REST:
        return _answer_rest(world, service, request)
    if request.target:
        return _answer_json(world, service, request.target, request.body)
    return _answer_query(world, service, request.body)


def _answer_rest(world: World, service: str, request: Request) -> Answer:
    kind = "application/json"
    operation, params = read_rest_request(service, request.method, request.path, request.query, request.body)
    try:
        result = call(world, service, operation, params)
    except ApiError as error:
        text = error_json(error.code, error.message)
        return Answer(status=error_status(service, error.code), content_type=kind, text=text)
    return Answer(status=200, content_type=kind, text=response_json(result))


def _answer_query(world: World, service: str, body: bytes) -> Answer | None:
    form = dict(parse_qsl(body.decode(), keep_blank_values=True))
    operation = form.get("Action", "")
    if operation not in OPERATIONS[service]:
        return None
    try:
        result = call(world, service, operation, read_request(service, operation, form))
    except ApiError as error:
        return Answer(status=400, content_type="text/xml", text=error_xml(service, error.code, error.message))
    return Answer(status=200, content_type="text/xml", text=response_xml(service, operation, result))


def _answer_json(world: World, service: str, target: str, body: bytes) -> Answer | None:
    operation = operation_of(target)
    if operation not in OPERATIONS[service] and service not in _WITHOUT_ENGINE:
        return None
    kind = "application/x-amz-json-1.1"
    try:
        result = call(world, service, operation, json.loads(body or b"{}"))
    except ApiError as error:
        return Answer(status=400, content_type=kind, text=error_json(error.code, error.message))
    return Answer(status=200, content_type=kind, text=response_json(result))
