"""Why AWS gave no answer to a call, in words for a person."""

from __future__ import annotations

import re

from .call import Call

_DENIED = frozenset(
    {
        "403",
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "Forbidden",
        "UnauthorizedOperation",
    }
)
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
#: In STS these say that the credentials are wrong; elsewhere, with credentials that STS took, that the Region is off.
_UNKNOWN_CREDENTIALS = frozenset(
    {
        "AuthFailure",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_REGION_OFF = frozenset({"OptInRequired", "SubscriptionRequiredException", *_UNKNOWN_CREDENTIALS})
_THROTTLED = frozenset(
    {
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_ABSENT = re.compile(r"NotFound|NoSuch|NonExist|DoesNotExist|^404$")
_ACTION = re.compile(r"not authorized to perform:? ([\w-]+:\w+)")
#: botocore's exceptions before a request is signed, by name: none is imported here, `--help` would pay for it.
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


class Unusable(Exception):
    """The credentials cannot be used at all: one line with cause and fix."""


class NoAnswer(Exception):
    """A call without an answer, so that a check cannot tell.

    Attributes:
        cause: Why there is none.
        fix: What to do.
        permission: IAM action that is missing, empty for other causes.
    """

    def __init__(self, cause: str, *, fix: str = "", permission: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.fix = fix
        self.permission = permission


class Denied(NoAnswer):
    """The caller may not make the call."""


class Absent(NoAnswer):
    """What was asked for does not exist."""


class RegionSilent(NoAnswer):
    """The Region is not enabled for the account, or has no endpoint of the service."""


def no_answer(call: Call, error: Exception, *, region: str) -> NoAnswer | Unusable:
    """Say why a call has no answer.

    Args:
        call: The call.
        error: What boto3 raised.
        region: Where it was asked.
    """
    names = {one.__name__ for one in type(error).__mro__}
    if names & _NO_CREDENTIALS:
        return Unusable(f"no usable credentials: {error}; {_SIGN_IN}")
    if names & _NO_ENDPOINT:
        return RegionSilent(
            f"{call.service} in {region} did not answer: {error}",
            fix=f"check that {region} has the service, and that this machine reaches it",
        )
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return NoAnswer(f"{call.name} failed: {type(error).__name__}: {error}", fix="run preflight again")
    code = str(response.get("Error", {}).get("Code", "")).removeprefix("Client.")
    message = str(response.get("Error", {}).get("Message", "")) or code
    return _refused(call, code, message, region)


_SIGN_IN = "sign in again, or give --profile"


def _refused(call: Call, code: str, message: str, region: str) -> NoAnswer | Unusable:
    if code in _EXPIRED:
        return Unusable(f"the credentials have expired ({code}); {_SIGN_IN}")
    if call.service == "sts" and code in _UNKNOWN_CREDENTIALS:
        return Unusable(f"AWS does not know the credentials ({code}: {message}); {_SIGN_IN}")
    if code == "AuthFailure" and message.startswith("Not authorized for"):  # an image that is not shared
        return Absent(message)
    if code in _DENIED:
        found = _ACTION.search(message)
        action = found[1] if found else call.actions[0]
        why = " by a policy of the organization" if "service control policy" in message else ""
        return Denied(
            f"{action} is not allowed{why}",
            fix=f"allow {action}, see --print-policy",
            permission=action,
        )
    if code in _REGION_OFF:
        return RegionSilent(
            f"{call.service} in {region} refuses credentials that STS takes ({code})",
            fix=f"enable {region} in the account, or the service in it",
        )
    if code in _THROTTLED:
        return NoAnswer(f"{call.name} was throttled to the last retry ({code})", fix="run preflight again")
    if _ABSENT.search(code) or (code == "ValidationError" and "does not exist" in message):
        return Absent(message)
    return NoAnswer(f"{call.name} failed: {code}: {message}", fix="run preflight again")
