"""The HTTP front: control paths, the API operations that models answer, and the engine for everything else."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from . import events, fleets
from .api import SIGNED_NAMES, Request, answer
from .clock import format_time, parse_time
from .engine import Engine
from .seeds import plant
from .timeline import move_clock
from .world import Json

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]

CONTROL = "/_emulator/"
_CREDENTIAL = re.compile(r"Credential=([^/]+)/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request")


class Front:
    """An ASGI application around the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] == "http" and scope["path"].startswith(CONTROL):
            status, document = await self._control(scope, await _body(receive))
            await _respond(send, status, "application/json", json.dumps(document, default=str))
            return
        key, region, service = _signed_for(scope)
        if service not in SIGNED_NAMES:
            await self._engine.asgi(scope, receive, send)
            return
        body = await _body(receive)
        self._engine.world.region = region
        self._engine.world.account = key if re.fullmatch(r"\d{12}", key) else self._engine.world.account
        request = Request(
            method=scope["method"],
            path=scope.get("raw_path", scope["path"].encode()).decode().partition("?")[0],
            query=scope.get("query_string", b"").decode(),
            target=_header(scope, b"x-amz-target"),
            body=body,
        )
        answered = answer(self._engine.world, service, request)
        if answered is None:
            await self._engine.asgi(scope, _replay(body, receive), send)
        else:
            await _respond(send, answered.status, answered.content_type, answered.text)

    async def _control(self, scope: Scope, body: bytes) -> tuple[int, Any]:
        world = self._engine.world
        document: Json = json.loads(body) if body else {}
        action = f"{scope['method']} {scope['path'].removeprefix(CONTROL)}"
        try:
            if action == "GET resources":
                return 200, [resource.document() for resource in world.resources.values()]
            if action == "GET history":
                return 200, {
                    "events": world.events,
                    "deliveries": world.deliveries,
                    "executions": world.executions,
                }
            if action == "GET clock":
                return 200, {"now": format_time(world.clock.now())}
            if action == "POST clock":
                return 200, move_clock(world, parse_time(document["to"]))
            if action == "POST events":
                return 200, events.emit(world, document)
            if action == "POST health":
                return 200, fleets.set_answering(world, document["instance_id"], answers=document["answers"])
            if action == "POST seed":
                plant(world, document)
                return 200, {}
            if action == "POST reset":
                await self._engine.reset()
                return 200, {}
        except (KeyError, TypeError, ValueError) as error:
            return 400, {"error": f"{type(error).__name__}: {error}"}
        return 404, {"error": f"no control action {action!r}"}


async def _lifespan(receive: Receive, send: Send) -> None:
    """The engine's own start and end do not happen: they would start schedulers on the machine's clock."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _signed_for(scope: Scope) -> tuple[str, str, str]:
    """Access key, Region and service of the request's signature."""
    found = _CREDENTIAL.search(_header(scope, b"authorization"))
    return (found[1], found[2], found[3]) if found else ("", "", "")


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope.get("headers", ()) if key == name), "")


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read once, to be read again."""
    sent = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _respond(send: Send, status: int, kind: str, text: str) -> None:
    body = text.encode()
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
