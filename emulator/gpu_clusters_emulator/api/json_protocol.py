"""Responses of AWS's JSON 1.1 protocol; requests are plain JSON.

Source: botocore 1.44.5, `serialize.JSONSerializer` and the parser of the same name (times are seconds since 1970).
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

Json = dict[str, Any]


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
