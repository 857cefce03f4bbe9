"""The emulator inside this process: no port, no second process, for fast tests."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

from ._extra import EMULATOR_PACKAGES, optional_module, require_packages
from .account import DEFAULT_ACCOUNT, EmulatedAccount

if TYPE_CHECKING:
    from gpu_clusters_emulator.world import World

_NOWHERE = "http://emulator.invalid"  # RFC 2606: never resolves, and is never dialled


class InProcessEmulator(EmulatedAccount):
    """An AWS emulator that boto3 clients reach without a network, as a context manager.

    One process holds one such account: entering forgets what an earlier one left.

    Args:
        account: The account's number, twelve digits; the engine takes it as the access key.
        region: The Region of its clients.
        seed: What exists before the first deploy; see `gpu_clusters_emulator.seeds`.

    Raises:
        ImportError: If the extra `testing` is not installed.

    Example:
        with InProcessEmulator(seed={"reservations": [...]}) as account:
            account.deploy(template.to_json())
            account.move_clock("2026-12-01T11:30Z")
    """

    def __init__(
        self,
        *,
        account: str = DEFAULT_ACCOUNT,
        region: str = "us-east-1",
        seed: Mapping[str, Any] | None = None,
    ) -> None:
        require_packages(*EMULATOR_PACKAGES)
        self.account, self.region = account, region
        self._seed = seed
        from gpu_clusters_emulator.engine import engine
        from gpu_clusters_emulator.front import Front

        self._engine = engine()
        self._front = Front(self._engine)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._clients: dict[str, Any] = {}

    @property
    def world(self) -> World:
        """The world itself, for direct reading."""
        return self._engine.world

    def __enter__(self) -> Self:
        self._thread.start()
        self.reset()
        if self._seed:
            self.seed(self._seed)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._client_of(service, self.account)
        return self._clients[service]

    def _client_of(self, service: str, access_key: str) -> Any:
        made = self._client_at(service, _NOWHERE, access_key)
        made.meta.events.register("before-send", self._answer)
        return made

    def _answer(self, request: Any, **_: Any) -> Any:
        """Botocore's hook: answer a request instead of sending it."""
        headers = {str(key): _text(value) for key, value in request.headers.items()}
        body = request.body or b""
        content = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else body.read()
        status, answered, payload = self._request(request.method, request.url, headers, content)
        response = optional_module("botocore.awsrequest").AWSResponse
        return response(request.url, status, answered, _Raw(payload))

    def _ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        status, _, payload = self._request(method, f"{_NOWHERE}{path}", {}, body)
        return status, payload

    def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        call = self._serve(method, url, headers, body)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    async def _serve(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(url)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": parts.scheme,
            "method": method,
            "path": unquote(parts.path) or "/",
            "raw_path": (parts.path or "/").encode(),
            "query_string": parts.query.encode(),
            "client": ("127.0.0.1", 0),
            "headers": [
                (b"host", parts.netloc.encode()),
                *((key.lower().encode(), value.encode()) for key, value in headers.items()),
            ],
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._front(scope, receive, send)
        answered = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
        return sent[0]["status"], answered, b"".join(message.get("body", b"") for message in sent[1:])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class _Raw(io.BytesIO):
    """A body as botocore reads it."""

    def stream(self, amount: int = 65_536, **_: Any) -> Any:
        while chunk := self.read(amount):
            yield chunk
