"""Clients of AWS APIs: with retries and deadlines, and with their errors in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .model import Problem

if TYPE_CHECKING:
    import boto3

#: Makes the EC2 client of a Region.
Ec2Clients = Callable[[str], Any]

_DENIED = ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")
_UNKNOWN_CREDENTIALS = ("InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch")
_NOT_ENABLED = ("AuthFailure", "OptInRequired")
_NOT_OFFERED = ("InvalidAction", "UnsupportedOperation", "Unsupported", "InvalidInstanceType")

_SERVER_FAULT = 500


class NoCredentials(Exception):
    """There are no credentials, or they are no longer good."""


def ec2_clients(session: boto3.Session, *, attempts: int = 6) -> Ec2Clients:
    """Clients that retry what is throttled, and give up on a Region that does not answer.

    Args:
        session: Session with the credentials.
        attempts: How often a call is tried; 1 for one that must not be made twice.
    """
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts}, connect_timeout=5, read_timeout=30
    )
    return lambda region: session.client("ec2", region_name=region, config=config)


def is_refusal(error: Exception) -> bool:
    """Whether an error is an API's answer that it did nothing, and not a lost answer or a fault of its own.

    Args:
        error: What botocore raised.
    """
    from botocore.exceptions import ClientError, EndpointConnectionError

    if isinstance(error, ClientError):
        return bool(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400) < _SERVER_FAULT)
    return isinstance(error, EndpointConnectionError)


def problem_of(error: Exception, *, region: str, action: str) -> Problem:
    """An error of an API in words.

    Args:
        error: What botocore raised.
        region: Region that was asked.
        action: IAM action of the call.

    Raises:
        NoCredentials: If there are none that are good: no other call would fare better.
    """
    from botocore.exceptions import (
        ClientError,
        EndpointConnectionError,
        NoCredentialsError,
        PartialCredentialsError,
        TokenRetrievalError,
    )

    if isinstance(error, (NoCredentialsError, PartialCredentialsError, TokenRetrievalError)):
        raise NoCredentials(f"no AWS credentials: {error}") from error
    if isinstance(error, EndpointConnectionError):
        return Problem(
            region=region, action=action, reason="no endpoint answers: no such Region, or no network"
        )
    if not isinstance(error, ClientError):
        return Problem(region=region, action=action, reason=str(error))
    code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
    if code in _EXPIRED or code in _UNKNOWN_CREDENTIALS:
        raise NoCredentials(f"the AWS credentials are not good: {code}: {message}") from error
    if code in _DENIED:
        return Problem(region=region, action=action, reason=f"permission {action} is missing")
    if code in _NOT_ENABLED:
        return Problem(region=region, action=action, reason="the Region is not enabled for this account")
    if code in _NOT_OFFERED:
        return Problem(region=region, action=action, reason=f"not offered in this Region ({code})")
    return Problem(region=region, action=action, reason=f"{code}: {message}")
