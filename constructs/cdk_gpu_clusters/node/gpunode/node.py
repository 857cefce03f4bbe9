"""This node: its settings, its instance metadata, and its calls to AWS."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from . import paths
from .command import run

_PREFIX = "GPU_"
_ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_INSTANCE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")


@dataclass(frozen=True)
class Settings:
    """The settings of `/etc/gpu-cluster/node.env`, by their names without the prefix `GPU_`, in lower case."""

    values: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """A setting as text; the default if it is missing or empty."""
        return self.values.get(name) or default

    def number(self, name: str, default: int = 0) -> int:
        """A setting as a number; the default if it is missing, empty or no number."""
        try:
            return int(self.text(name) or default)
        except ValueError:
            return default

    def words(self, name: str) -> list[str]:
        """A setting that is a list of words, separated by blanks."""
        return self.text(name).split()


def read_settings() -> Settings:
    """Read the settings of this node."""
    return settings_of(paths.read_text(paths.settings_file()))


def settings_of(text: str) -> Settings:
    """Read settings like a shell. Lines that a shell could not read are left out."""
    values = {}
    for line in text.splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        if len(words) == 1 and "=" in words[0]:
            name, _, value = words[0].partition("=")
            values[name[len(_PREFIX) :].lower() if name.startswith(_PREFIX) else name] = value
    return Settings(values)


_TOKEN_SECONDS = 300
_TIMEOUT_SECONDS = 2


class Metadata:
    """Reads instance metadata by IMDSv2 only, without a proxy. A token is kept while it is valid.

    Source: AWS EC2 user guide, "Use the Instance Metadata Service".
    """

    def __init__(self) -> None:
        address = urlsplit(os.environ.get("GPU_CLUSTER_IMDS", "http://169.254.169.254"))
        self._host, self._port = address.hostname or "", address.port or 80
        self._token = ""
        self._until = 0.0

    def get(self, path: str) -> str | None:
        """One value, such as `placement/region`; None if it does not exist or the service does not answer."""
        try:
            return self._request("GET", f"meta-data/{path}", {"X-aws-ec2-metadata-token": self._get_token()})
        except (OSError, http.client.HTTPException):
            self._until = 0.0
            return None

    def wait_for(self, path: str, *, tries: int = 5) -> str:
        """One value that must exist, such as `instance-id`; empty after the last try."""
        for number in range(tries):
            value = self.get(path)
            if value:
                return value
            if number + 1 < tries:
                time.sleep(2)
        return ""

    def _get_token(self) -> str:
        if time.monotonic() >= self._until:
            headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECONDS)}
            self._token = self._request("PUT", "api/token", headers) or ""
            self._until = time.monotonic() + _TOKEN_SECONDS - 10
        return self._token

    def _request(self, method: str, path: str, headers: dict[str, str]) -> str | None:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request(method, f"/latest/{path}", headers=headers)
            answer = connection.getresponse()
            body = answer.read().decode("utf-8", "replace")
        finally:
            connection.close()
        if answer.status == http.client.NOT_FOUND:
            return None
        if answer.status != http.client.OK:
            raise http.client.HTTPException(f"{path}: {answer.status}")
        return body


_ENVIRONMENT = {
    "AWS_PAGER": "",
    "AWS_RETRY_MODE": "standard",
    "AWS_MAX_ATTEMPTS": "5",
    # By default it requests credentials from the metadata service once, and waits 1 s.
    "AWS_METADATA_SERVICE_TIMEOUT": "5",
    "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "3",
}


class AwsError(Exception):
    """A call to AWS failed; the text is the reason."""


class Aws:
    """Calls AWS in one Region, through the command-line interface of the image.

    Not botocore: the newest one requires a newer Python than images have.

    Attributes:
        region: The Region.
    """

    def __init__(self, region: str) -> None:
        self.region = region

    def call(self, service: str, operation: str, *arguments: str, timeout_seconds: float = 60) -> Any:
        """Make one call.

        Args:
            timeout_seconds: Deadline of the program, its own retries included.

        Returns:
            The answer, read as JSON; None if it is empty.

        Raises:
            AwsError: If the call failed.
        """
        region = self.region or os.environ.get("AWS_DEFAULT_REGION", "")
        environment = {**_ENVIRONMENT, "AWS_DEFAULT_REGION": region}
        command = ("aws", service, operation, *arguments, "--output", "json")
        outcome = run(*command, timeout_seconds=timeout_seconds, environment=environment)
        if not outcome.ok:
            raise AwsError(outcome.words or f"aws {service} {operation} ended with status {outcome.status}")
        text = outcome.output.strip()
        if not text:
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as fault:
            raise AwsError(f"aws {service} {operation} answered no JSON: {outcome.words}") from fault


@dataclass(frozen=True)
class Node:
    """What every part of the software works with.

    Attributes:
        settings: The settings of the user data.
        metadata: Instance metadata.
        instance_id: Id of the instance; empty if the metadata service does not answer.
        aws: Calls in its Region.
    """

    settings: Settings
    metadata: Metadata
    instance_id: str
    aws: Aws

    @property
    def stream_name(self) -> str:
        """The log stream of this node: its role may write no others."""
        return "/".join(filter(None, (self.instance_id, self._address)))

    @property
    def evidence_folder(self) -> str:
        """Where this node leaves evidence, below the folder of the fleet: its role may write nowhere else."""
        return "/".join(filter(None, (self._address, self.instance_id)))

    @property
    def _address(self) -> str:
        address = self.metadata.get("local-ipv4") or ""
        return address if _ADDRESS.fullmatch(address) else ""


def this_node() -> Node:
    """The node that this program runs on."""
    settings, metadata = read_settings(), Metadata()
    found = metadata.wait_for("instance-id")
    # It becomes part of the names of files, log streams and objects; a proxy may answer anything.
    instance_id = found if _INSTANCE_ID.fullmatch(found) else ""
    region = settings.text("region") or (metadata.wait_for("placement/region") if instance_id else "")
    return Node(settings=settings, metadata=metadata, instance_id=instance_id, aws=Aws(region))
