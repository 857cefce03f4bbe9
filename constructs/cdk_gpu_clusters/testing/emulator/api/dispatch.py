"""Route an operation to its model: by a Python call, or by an HTTP request in AWS's query protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl

from ..faults import ApiError
from ..world import Json, World
from . import autoscaling, ec2
from .query_protocol import error_xml, read_request, response_xml

OPERATIONS: Mapping[str, Mapping[str, Callable[[World, Json], Json]]] = {
    "autoscaling": autoscaling.OPERATIONS,
    "ec2": ec2.OPERATIONS,
}


def call(world: World, service: str, operation: str, params: Json) -> Json:
    """Perform an operation.

    Args:
        service: Service name as botocore spells it, such as `autoscaling`.
        operation: Operation name, such as `SetDesiredCapacity`.

    Raises:
        ApiError: What the service answers; `NotEmulated` where no model has the operation.
    """
    handler = OPERATIONS.get(service, {}).get(operation)
    if handler is None:
        raise ApiError("NotEmulated", f"no model answers {service}:{operation}")
    return handler(world, params)


def answer(world: World, service: str, body: str) -> tuple[int, str] | None:
    """Answer a request body of the query protocol; None where the engine shall answer."""
    form = dict(parse_qsl(body, keep_blank_values=True))
    operation = form.get("Action", "")
    if operation not in OPERATIONS.get(service, {}):
        return None
    try:
        result = call(world, service, operation, read_request(service, operation, form))
    except ApiError as error:
        return 400, error_xml(service, error.code, error.message)
    return 200, response_xml(service, operation, result)
