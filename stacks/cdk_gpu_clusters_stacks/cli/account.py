"""The account of a cluster, for the commands that read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from . import output

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.preflight import Account
    from cdk_gpu_clusters_stacks.spec import ClusterSpec

#: `--profile`, the same in every command that reads an account.
Profile = Annotated[
    str | None, typer.Option(metavar="NAME", help="Profile of the credentials. Default: the environment's.")
]


@contextmanager
def account_of(spec: ClusterSpec, profile: str | None, *, command: str) -> Iterator[Account]:
    """The account in the Region of a cluster. Leaves with 2 if the credentials cannot be used.

    Args:
        spec: The cluster.
        profile: Profile of the credentials; the environment's if None.
        command: Command that asks, for the message.
    """
    from cdk_gpu_clusters_stacks.preflight import Account, Unusable, boto3_clients

    try:
        with Account(boto3_clients(profile, region=spec.region), region=spec.region) as account:
            yield account
    except Unusable as fault:
        output.refuse(f"{command}: {fault}")
