"""Route an operation to its model: by a Python call, or by an HTTP request in AWS's query or JSON protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from ..alarms import describe_alarms
from ..faults import ApiError
from ..world import Json, World
from . import autoscaling, ec2, elbv2, fsx
from .json_protocol import error_json, operation_of, response_json
from .query_protocol import error_xml, read_request, response_xml

OPERATIONS: Mapping[str, Mapping[str, Callable[[World, Json], Json]]] = {
    "autoscaling": autoscaling.OPERATIONS,
    "cloudwatch": {"DescribeAlarms": describe_alarms},  # for state machines; the engine answers others
    "ec2": ec2.OPERATIONS,
    "elbv2": elbv2.OPERATIONS,
    "fsx": fsx.OPERATIONS,
}
#: Services as requests are signed for them, and as botocore names them.
SIGNED_NAMES = {"autoscaling": "autoscaling", "ec2": "ec2", "elasticloadbalancing": "elbv2", "fsx": "fsx"}
_WITHOUT_ENGINE = ("fsx",)


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


def answer(world: World, signed_name: str, target: str, body: bytes) -> Answer | None:
    """Answer a request; None where the engine shall answer.

    Args:
        world: The account.
        signed_name: Service in the request's signature.
        target: Header `X-Amz-Target` of the JSON protocol; empty in the query protocol.
        body: Body of the request.
    """
    service = SIGNED_NAMES[signed_name]
    return _answer_json(world, service, target, body) if target else _answer_query(world, service, body)


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
