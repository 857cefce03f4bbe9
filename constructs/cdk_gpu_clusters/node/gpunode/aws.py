"""AWS through the command-line interface of the image; the newest botocore asks for a newer Python than images have."""

from __future__ import annotations

import json
import os
from typing import Any

from .command import Outcome, run

_ENVIRONMENT = {
    "AWS_PAGER": "",
    "AWS_RETRY_MODE": "standard",
    "AWS_MAX_ATTEMPTS": "5",
    # By default it asks the metadata service for credentials once, and waits 1 s.
    "AWS_METADATA_SERVICE_TIMEOUT": "5",
    "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "3",
}


class AwsError(Exception):
    """A call that AWS, or the way to it, refused; the text says why."""


class Aws:
    """Makes calls of one Region.

    Attributes:
        region: The Region.
    """

    def __init__(self, region: str) -> None:
        self.region = region

    def call(self, service: str, operation: str, *arguments: str, timeout_seconds: float = 60) -> Any:
        """Make one call.

        Args:
            service: Service as the command-line interface names it, such as `autoscaling`.
            operation: Operation, such as `describe-auto-scaling-instances`.
            arguments: Further arguments.
            timeout_seconds: Deadline of the program, its own retries included.

        Returns:
            The answer, read as JSON; None for no answer.

        Raises:
            AwsError: If the call failed.
        """
        outcome = self._run(service, operation, *arguments, timeout_seconds=timeout_seconds)
        if not outcome.ok:
            raise AwsError(outcome.words or f"aws {service} {operation} ended with status {outcome.status}")
        text = outcome.output.strip()
        if not text:
            return None
        try:
            return json.loads(text)
        except ValueError as fault:
            raise AwsError(f"aws {service} {operation} answered no JSON: {outcome.words}") from fault

    def _run(self, *arguments: str, timeout_seconds: float) -> Outcome:
        environment = {
            **_ENVIRONMENT,
            "AWS_DEFAULT_REGION": self.region or os.environ.get("AWS_DEFAULT_REGION", ""),
        }
        return run(
            "aws", *arguments, "--output", "json", timeout_seconds=timeout_seconds, environment=environment
        )
