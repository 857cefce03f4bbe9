"""What an error of an AWS call means, whoever made the call: sorted by botocore's exceptions and AWS's codes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Trouble(Enum):
    """Kinds of errors."""

    NO_CREDENTIALS = "no usable credentials"
    EXPIRED = "expired credentials"
    UNKNOWN_CREDENTIALS = "credentials that the service does not take"
    DENIED = "a permission is missing"
    REGION_OFF = "the Region, or the service in it, is not enabled"
    NO_ENDPOINT = "nothing answers"
    NOT_OFFERED = "the service does not have it"
    THROTTLED = "throttled to the last retry"
    ABSENT = "it does not exist"
    OTHER = "something else"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsError:
    """An error of an AWS call.

    Attributes:
        code: AWS's code, empty for errors that are none of AWS's.
    """

    trouble: Trouble
    code: str
    message: str


_CODES = {
    Trouble.EXPIRED: ("ExpiredToken", "ExpiredTokenException", "RequestExpired"),
    #: In STS these say that the credentials are wrong; elsewhere, with good credentials, that the Region is off.
    Trouble.UNKNOWN_CREDENTIALS: (
        "AuthFailure",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    ),
    Trouble.DENIED: (
        "403",
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "Forbidden",
        "UnauthorizedOperation",
    ),
    Trouble.REGION_OFF: ("OptInRequired", "SubscriptionRequiredException"),
    Trouble.NOT_OFFERED: ("InvalidAction", "InvalidInstanceType", "Unsupported", "UnsupportedOperation"),
    Trouble.THROTTLED: (
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    ),
}
_TROUBLES = {code: trouble for trouble, codes in _CODES.items() for code in codes}
#: EC2 API reference, "Error codes", has InvalidPlacementGroup.Unknown beside its many codes with NotFound.
_ABSENT = re.compile(r"NotFound|NoSuch|NonExist|DoesNotExist|^InvalidPlacementGroup.Unknown$|^404$")
#: botocore's own exceptions, by name: none is imported here, `--help` would pay for it.
_NO_CREDENTIALS = frozenset(
    {
        "CredentialRetrievalError",
        "InvalidConfigError",
        "LoginError",
        "LoginRefreshRequired",
        "LoginTokenLoadError",
        "MissingDependencyException",
        "NoCredentialsError",
        "PartialCredentialsError",
        "ProfileNotFound",
        "SSOError",
        "SSOTokenLoadError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    }
)
_NO_ENDPOINT = frozenset(
    {
        "ConnectTimeoutError",
        "ConnectionClosedError",
        "EndpointConnectionError",
        "EndpointProviderError",
        "NoRegionError",
        "ProxyConnectionError",
        "ReadTimeoutError",
        "SSLError",
        "UnknownEndpointError",
        "UnknownRegionError",
    }
)


def aws_error(error: Exception) -> AwsError:
    """Sort an error.

    Example:
        >>> aws_error(TimeoutError("no answer")).trouble
        <Trouble.OTHER: 'something else'>
    """
    names = {one.__name__ for one in type(error).__mro__}
    if names & _NO_CREDENTIALS:
        return AwsError(trouble=Trouble.NO_CREDENTIALS, code="", message=str(error))
    if names & _NO_ENDPOINT:
        return AwsError(trouble=Trouble.NO_ENDPOINT, code="", message=str(error))
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return AwsError(trouble=Trouble.OTHER, code="", message=str(error))
    code = str(response.get("Error", {}).get("Code", "")).removeprefix("Client.")
    message = str(response.get("Error", {}).get("Message", "")) or code
    absent = (
        _ABSENT.search(code)
        or (code == "ValidationError" and "does not exist" in message)
        or (code == "AuthFailure" and message.startswith("Not authorized for"))  # an image that is not shared
    )
    if code == "LimitExceededException" and "too many calls" in message:  # of Cost Explorer
        return AwsError(trouble=Trouble.THROTTLED, code=code, message=message)
    trouble = Trouble.ABSENT if absent else _TROUBLES.get(code, Trouble.OTHER)
    return AwsError(trouble=trouble, code=code, message=message)
