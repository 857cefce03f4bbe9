"""What the stacks of all stores have in common."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from constructs import Construct


class DataStack(cdk.Stack):
    """A stack of one store: `cdk destroy` refuses it, and what it holds stays even if it is deleted."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment) -> None:
        """Define the stack.

        Args:
            scope: The app.
            construct_id: Id, and name of the stack.
            env: Account and Region.
        """
        super().__init__(
            scope,
            construct_id,
            env=env,
            description="Data of a GPU cluster",
            termination_protection=True,
        )


def given_key(scope: Construct, arn: str | None) -> kms.IKey | None:
    """The key that the cluster file names, None where a new one is to be made."""
    return None if arn is None else kms.Key.from_key_arn(scope, "GivenKey", arn)
