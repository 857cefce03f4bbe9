"""Credentials and clients of boto3, set up for many short calls."""

from __future__ import annotations

from typing import Any

from .account import Clients
from .answer import Unusable

# The standard mode retries throttling and lost connections with growing, random pauses (boto3 guide, "Retries").
_ATTEMPTS = 6
_CONNECT_SECONDS = 5
_READ_SECONDS = 20
_CONNECTIONS = 24


def boto3_clients(profile: str | None = None) -> Clients:
    """Clients of the caller's credentials, or of those of a profile.

    Raises:
        Unusable: If boto3 is not installed, or the profile does not exist.
    """
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ModuleNotFoundError as fault:
        raise Unusable(f"this needs {fault.name}: pip install 'cdk-gpu-clusters[cli,live]'") from None
    try:
        session = boto3.Session(profile_name=profile)
    except BotoCoreError as fault:
        raise Unusable(f"no usable credentials: {fault}") from None
    config = Config(
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        max_pool_connections=_CONNECTIONS,
    )

    def client(service: str, region: str) -> Any:
        make: Any = session.client
        return make(service, region_name=region, config=config)

    return client
