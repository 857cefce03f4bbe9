"""The emulator in a process of its own, for the CDK CLI and any other program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import IO, Any, Self

from ._extra import EMULATOR_PACKAGES, require_packages
from .account import DEFAULT_ACCOUNT, NO_SECRET, EmulatedAccount

_STOP_SECONDS = 10
_ANSWER_SECONDS = 60


class Emulator(EmulatedAccount):
    """An AWS emulator on a free loopback port, as a context manager.

    Args:
        account: The account's number, twelve digits; the engine takes it as the access key.
        region: The Region that clients and `environment` use.
        seed: What exists before the first deploy; see `gpu_clusters_emulator.seeds`.
        port: Port on 127.0.0.1; a free one by default.
        log: Where the emulator's error output goes; nowhere by default.

    Raises:
        ImportError: If the extra `testing` is not installed.

    Example:
        with Emulator() as account:
            subprocess.run(["cdk", "bootstrap"], env=account.environment, check=True)
            subprocess.run(["cdk", "deploy", "--all"], env=account.environment, check=True)
            account.client("autoscaling").describe_auto_scaling_groups()
    """

    def __init__(
        self,
        *,
        account: str = DEFAULT_ACCOUNT,
        region: str = "us-east-1",
        seed: Mapping[str, Any] | None = None,
        port: int = 0,
        log: IO[bytes] | None = None,
    ) -> None:
        require_packages(*EMULATOR_PACKAGES)
        self.account, self.region = account, region
        self._seed = seed
        self.endpoint_url = ""
        self._port = port
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the process and wait until it answers.

        Raises:
            RuntimeError: If it ends at once.
        """
        command = [sys.executable, "-m", "gpu_clusters_emulator", "--port", str(self._port)]
        self._process = subprocess.Popen(
            [*command, "--stop-with-stdin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log or subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        line = self._process.stdout.readline() if self._process.stdout is not None else b""
        if not line:
            self.stop()
            raise RuntimeError("the emulator ended before it listened; give `log` to see why")
        self.endpoint_url = json.loads(line)["endpoint_url"]
        if self._seed:
            self.seed(self._seed)

    def stop(self) -> None:
        """End the process; nothing of the account is kept."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process = None

    @property
    def settings(self) -> dict[str, str]:
        """The AWS settings that point SDKs and the CDK CLI here, and nowhere else."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": self.account,
            "AWS_SECRET_ACCESS_KEY": NO_SECRET,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment with every AWS setting replaced, so that no real account can be reached."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        return {**kept, **self.settings}

    def client(self, service: str) -> Any:
        return self._client_at(service, self.endpoint_url)

    def _client_of(self, service: str, access_key: str) -> Any:
        return self._client_at(service, self.endpoint_url, access_key)

    def _ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        connection = HTTPConnection(self.endpoint_url.removeprefix("http://"), timeout=_ANSWER_SECONDS)
        try:
            connection.request(method, path, body=body or None)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
