"""The instance metadata service, version 2, of one node (AWS EC2 user guide, "Use instance metadata")."""

from __future__ import annotations

import json
import secrets
import socket
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

from nodebox.servers import Server

ADDRESS = "169.254.169.254"
ROLE = "nodes"
#: In a container cloud-init sees no DMI, takes the cloud for an unknown one, and asks without a token (version 1).
_TOKENLESS = ("Cloud-Init", "python-requests")


@dataclass
class Metadata:
    """What the service of one instance answers.

    Attributes:
        values: Texts by path below `meta-data`; may be changed at any time.
        identity: The instance's identity document.
        user_data: The user data.
        delay_seconds: How long an answer takes.
        silent_until: Time of `time.monotonic` until which nothing is answered.
        version_1: Whether cloud-init is answered without a token.
        asked: Paths that were asked for with a token.
        refused: Paths that were asked for without one, and not answered.
    """

    values: dict[str, str]
    user_data: str
    identity: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0
    silent_until: float = 0
    version_1: bool = True
    asked: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    @classmethod
    def of_instance(
        cls,
        instance_id: str,
        *,
        user_data: str,
        instance_type: str,
        zone: str,
        account: str,
        address: str = "10.77.0.2",
    ) -> Metadata:
        """The metadata of an instance with the role `nodes`; the emulator takes the account for the access key."""
        credentials = {
            "Code": "Success", "Type": "AWS-HMAC", "LastUpdated": "2026-01-01T00:00:00Z", "AccessKeyId": account,
            "SecretAccessKey": "testing", "Token": "testing", "Expiration": "2099-01-01T00:00:00Z",
        }  # fmt: skip
        return cls(
            values={
                "ami-id": "ami-0123456789abcdef0",
                "autoscaling/target-lifecycle-state": "InService",
                "hostname": "ip-10-77-0-2.ec2.internal",
                "iam/security-credentials/" + ROLE: json.dumps(credentials),
                "instance-id": instance_id,
                "instance-type": instance_type,
                "local-hostname": "ip-10-77-0-2.ec2.internal",
                "local-ipv4": address,
                "placement/availability-zone": zone,
                "placement/region": zone[:-1],
            },
            identity={
                "accountId": account,
                "availabilityZone": zone,
                "instanceId": instance_id,
                "instanceType": instance_type,
                "region": zone[:-1],
            },
            user_data=user_data,
        )

    def serve(self, listening: socket.socket) -> Server:
        """Answer on a socket."""
        return Server(listening, type("InstanceRequest", (_Request,), {"metadata": self}))

    def below(self, path: str) -> str | None:
        """The text at a path, or the list of what is below it."""
        texts = {f"meta-data/{key}": value for key, value in self.values.items()}
        texts["dynamic/instance-identity/document"] = json.dumps(self.identity)
        texts["user-data"] = self.user_data
        if path in texts:
            return texts[path]
        start = f"{path}/" if path else ""
        rest = [key.removeprefix(start) for key in texts if key.startswith(start)]
        names = sorted({one.partition("/")[0] + ("/" if "/" in one else "") for one in rest})
        return "\n".join(names) or None


class _Request(BaseHTTPRequestHandler):
    wbufsize = -1  # one packet for each answer: two would wait for a delayed acknowledgement
    metadata: ClassVar[Metadata]

    def do_PUT(self) -> None:
        self._wait()
        lifetime = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if self.path != "/latest/api/token" or not lifetime.isdigit():
            self._answer(400)
            return
        token = secrets.token_urlsafe()
        self.metadata.tokens.add(token)
        self._answer(200, token, {"X-aws-ec2-metadata-token-ttl-seconds": lifetime})

    def do_GET(self) -> None:
        self._wait()
        known = self.headers.get("X-aws-ec2-metadata-token") in self.metadata.tokens
        tokenless = self.metadata.version_1 and self.headers.get("User-Agent", "").startswith(_TOKENLESS)
        if not known and not tokenless:
            self.metadata.refused.append(self.path)
            self._answer(401)
            return
        text = self._text()
        if known:
            self.metadata.asked.append(self.path)
        self._answer(404 if text is None else 200, text or "")

    def _text(self) -> str | None:
        version, _, path = self.path.lstrip("/").partition("/")
        return self.metadata.below(path.rstrip("/")) if version else "latest"

    def _wait(self) -> None:
        silence = self.metadata.silent_until - time.monotonic()
        time.sleep(max(silence, self.metadata.delay_seconds))

    def _answer(self, status: int, text: str = "", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text.encode())), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_request(self, *_: object) -> None:
        """Keep the test output quiet."""
