"""Instance metadata, IMDSv2 only (AWS EC2 user guide, "Use the Instance Metadata Service")."""

from __future__ import annotations

import http.client
import os
import time
from urllib.parse import urlsplit

_TOKEN_SECONDS = 300
_TIMEOUT_SECONDS = 2


class Metadata:
    """Reads instance metadata, past every proxy; a token is kept as long as it is good."""

    def __init__(self) -> None:
        address = urlsplit(os.environ.get("GPU_CLUSTER_IMDS", "http://169.254.169.254"))
        self._host, self._port = address.hostname or "", address.port or 80
        self._token = ""
        self._until = 0.0

    def get(self, path: str) -> str | None:
        """One value, such as `placement/region`; None where it does not exist or the service does not answer."""
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
