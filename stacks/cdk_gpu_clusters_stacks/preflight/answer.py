"""Why AWS gave no answer to a call, in words for a person."""

from __future__ import annotations

import re

from cdk_gpu_clusters_stacks.aws_errors import AwsError, Trouble, aws_error

from .call import Call

_ACTION = re.compile(r"not authorized to perform:? ([\w-]+:\w+)")


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
    found = aws_error(error)
    if found.trouble is Trouble.NO_CREDENTIALS:
        return Unusable(f"no usable credentials: {error}; {_SIGN_IN}")
    if found.trouble is Trouble.NO_ENDPOINT:
        return RegionSilent(
            f"{call.service} in {region} did not answer: {error}",
            fix=f"check that {region} has the service, and that this machine reaches it",
        )
    if not found.code:
        return NoAnswer(f"{call.name} failed: {type(error).__name__}: {error}", fix="run preflight again")
    return _refused(call, found, region)


_SIGN_IN = "sign in again, or give --profile"


def _refused(call: Call, found: AwsError, region: str) -> NoAnswer | Unusable:
    code, message, trouble = found.code, found.message, found.trouble
    if trouble is Trouble.EXPIRED:
        return Unusable(f"the credentials have expired ({code}); {_SIGN_IN}")
    if call.service == "sts" and trouble is Trouble.UNKNOWN_CREDENTIALS:
        return Unusable(f"AWS does not know the credentials ({code}: {message}); {_SIGN_IN}")
    if trouble is Trouble.DENIED:
        named = _ACTION.search(message)
        action = named[1] if named else call.actions[0]
        why = " by a policy of the organization" if "service control policy" in message else ""
        return Denied(
            f"{action} is not allowed{why}",
            fix=f"allow {action}, see --print-policy",
            permission=action,
        )
    if trouble in (Trouble.REGION_OFF, Trouble.UNKNOWN_CREDENTIALS):
        return RegionSilent(
            f"{call.service} in {region} refuses credentials that STS takes ({code})",
            fix=f"enable {region} in the account, or the service in it",
        )
    if trouble is Trouble.THROTTLED:
        return NoAnswer(f"{call.name} was throttled to the last retry ({code})", fix="run preflight again")
    if trouble is Trouble.ABSENT:
        return Absent(message)
    return NoAnswer(f"{call.name} failed: {code}: {message}", fix="run preflight again")
