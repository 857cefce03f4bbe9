"""Clients of AWS APIs: with retries and deadlines, and with their errors in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters_stacks.aws_errors import Trouble, aws_error

from .model import Problem

if TYPE_CHECKING:
    import boto3

#: Makes the EC2 client of a Region.
Ec2Clients = Callable[[str], Any]

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
    found = aws_error(error)
    if found.trouble is Trouble.NO_CREDENTIALS:
        raise NoCredentials(f"no AWS credentials: {found.message}") from error
    # EC2 says AuthFailure of a Region that is not enabled.
    not_enabled = found.trouble is Trouble.REGION_OFF or found.code == "AuthFailure"
    if found.trouble in (Trouble.EXPIRED, Trouble.UNKNOWN_CREDENTIALS) and not not_enabled:
        raise NoCredentials(f"the AWS credentials are not good: {found.code}: {found.message}") from error
    if found.trouble is Trouble.DENIED:
        reason = f"permission {action} is missing"
    elif found.trouble is Trouble.NO_ENDPOINT:
        reason = "no endpoint answers: no such Region, or no network"
    elif not_enabled:
        reason = "the Region is not enabled for this account"
    elif found.trouble is Trouble.NOT_OFFERED:
        reason = f"not offered in this Region ({found.code})"
    else:
        reason = f"{found.code}: {found.message}" if found.code else found.message
    return Problem(region=region, action=action, reason=reason)
