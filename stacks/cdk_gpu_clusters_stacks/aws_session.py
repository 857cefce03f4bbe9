"""Sessions of boto3 that tell at once if there are no credentials, or nothing answers."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .aws_errors import Trouble, aws_error

if TYPE_CHECKING:
    import boto3

#: The instance metadata service answers within milliseconds if there is one. botocore would wait whole seconds for it.
_METADATA = ("169.254.169.254", 80)
_METADATA_SECONDS = 0.25
_METADATA_SETTINGS = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE")
_PROBE_SECONDS = 3


class NoSession(Exception):
    """AWS cannot be asked at all: no boto3, no credentials, or no network."""


def open_session(profile: str | None = None) -> boto3.Session:
    """A session with credentials.

    Args:
        profile: Profile of the AWS configuration; the environment's by default.

    Raises:
        NoSession: If boto3 is not installed, or there are no credentials.
    """
    try:
        import boto3
        import botocore.session
        from botocore.exceptions import BotoCoreError
    except ModuleNotFoundError:
        raise NoSession("this asks an AWS account: pip install 'gpu-clusters[live]'") from None
    try:
        core = botocore.session.Session(profile=profile)
        core.get_component("credential_provider").remove("iam-role")
        session = boto3.Session(botocore_session=core)
        found = session.get_credentials()
        if found is None and _may_be_an_instance():
            session = boto3.Session(profile_name=profile)
            found = session.get_credentials()
    except BotoCoreError as fault:
        raise NoSession(f"no usable credentials: {fault}") from None
    if found is None:
        raise NoSession("no AWS credentials: sign in (aws sso login), or name a profile with --profile or AWS_PROFILE")
    return session


def _may_be_an_instance() -> bool:
    """Whether an instance metadata service answers here, or another address of it is configured."""
    if any(os.environ.get(name) for name in _METADATA_SETTINGS):
        return True
    try:
        socket.create_connection(_METADATA, _METADATA_SECONDS).close()
    except OSError:
        return False
    return True


def require_answer(session: boto3.Session, regions: Sequence[str]) -> None:
    """Make sure that EC2 gives any answer in the first or the last of some Regions.

    Raises:
        NoSession: If nothing answers: without this, every call would wait for its retries.
    """
    from botocore.config import Config

    config = Config(retries={"total_max_attempts": 1}, connect_timeout=_PROBE_SECONDS, read_timeout=_PROBE_SECONDS)
    address = ""
    for region in dict.fromkeys((regions[0], regions[-1])):
        client = session.client("ec2", region_name=region, config=config)
        try:
            client.describe_regions(RegionNames=[region], DryRun=True)
        except Exception as error:  # noqa: BLE001 - every answer but silence is one
            if aws_error(error).trouble is not Trouble.NO_ENDPOINT:
                return
            address = client.meta.endpoint_url
        else:
            return
    raise NoSession(f"nothing answers at {address}: no network, a proxy in between, or no such Region")
