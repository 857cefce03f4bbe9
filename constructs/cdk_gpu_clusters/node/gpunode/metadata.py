"""Instance metadata, IMDSv2 only (AWS EC2 user guide, "Use the Instance Metadata Service")."""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from typing import Optional

_TOKEN_SECONDS = 300
_TIMEOUT_SECONDS = 2
# No proxy of the environment may see the node's credentials.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Metadata:
    """Reads instance metadata; a token is kept as long as it is good."""

    def __init__(self) -> None:
        self._address = os.environ.get("GPU_CLUSTER_IMDS", "http://169.254.169.254").rstrip("/")
        self._token = ""
        self._until = 0.0

    def get(self, path: str) -> Optional[str]:
        """One value, such as `placement/region`; None where it does not exist or the service does not answer."""
        try:
            return self._request("GET", f"meta-data/{path}", {"X-aws-ec2-metadata-token": self._get_token()})
        except (OSError, http.client.HTTPException):  # HTTP and URL errors are OSErrors
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
            self._token = self._request("PUT", "api/token", headers)
            self._until = time.monotonic() + _TOKEN_SECONDS - 10
        return self._token

    def _request(self, method: str, path: str, headers: dict[str, str]) -> str:
        request = urllib.request.Request(f"{self._address}/latest/{path}", method=method, headers=headers)
        with _OPENER.open(request, timeout=_TIMEOUT_SECONDS) as answer:
            body: bytes = answer.read()
        return body.decode("utf-8", "replace")
