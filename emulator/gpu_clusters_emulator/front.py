"""The HTTP front: control paths, the API operations that models answer, and the engine for everything else."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from . import events, fleets, permissions
from .api import SIGNED_NAMES, Answer, Request, answer, denial
from .api.ssm import take_commands
from .clock import format_time, parse_time
from .engine import Engine
from .faults import ApiError
from .seeds import plant
from .timeline import move_clock
from .world import Caller, Json, World

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
        world = self._engine.world
        caller = world.sessions.get(key)
        if service not in SIGNED_NAMES and caller is None:
            await self._engine.asgi(scope, receive, send)
            return
        body = await _body(receive)
        world.region = region
        world.account = key if re.fullmatch(r"\d{12}", key) else world.account
        request = Request(
            method=scope["method"],
            path=scope.get("raw_path", scope["path"].encode()).decode().partition("?")[0],
            query=scope.get("query_string", b"").decode(),
            target=_header(scope, b"x-amz-target"),
            body=body,
        )
        answered = answer(world, service, request, caller) if service in SIGNED_NAMES else None
        if answered is None and caller is not None:
            scope = _signed_by(world.account, key, scope)
            answered = self._refused(service, request, caller)
        if answered is None:
            await self._engine.asgi(scope, _replay(body, receive), send)
        else:
            await _respond(send, answered.status, answered.content_type, answered.text)

    def _refused(self, service: str, request: Request, caller: Caller) -> Answer | None:
        """The answer to a request for the engine that a role may not make; None if it may."""
        world = self._engine.world
        try:
            if service == "logs":
                _, _, operation = request.target.rpartition(".")
                permissions.authorize(world, caller, service, operation, json.loads(request.body or b"{}"))
            else:
                for action, resource, asked in self._engine.asked(request, service):
                    permissions.require(world, caller, action, resource, asked)
        except ApiError as error:
            return denial(service, request, error)
        return None

    async def _control(self, scope: Scope, body: bytes) -> tuple[int, Any]:
        document: Json = json.loads(body) if body else {}
        action = f"{scope['method']} {scope['path'].removeprefix(CONTROL)}"
        if action == "POST reset":
            await self._engine.reset()
            return 200, {}
        if action not in _CONTROLS:
            return 404, {"error": f"no control action {action!r}"}
        try:
            return 200, _CONTROLS[action](self._engine.world, document)
        except (KeyError, TypeError, ValueError) as error:
            return 400, {"error": f"{type(error).__name__}: {error}"}


_CONTROLS: Mapping[str, Callable[[World, Json], Any]] = {
    "GET clock": lambda world, _: {"now": format_time(world.clock.now())},
    "GET history": lambda world, _: {
        "events": world.events,
        "deliveries": world.deliveries,
        "executions": world.executions,
        "denied": world.denied,
        "logged": world.logged,
        "lost": world.lost,
        "outages": world.outages,
    },
    "GET resources": lambda world, _: [resource.document() for resource in world.resources.values()],
    "POST commands": take_commands,
    "POST clock": lambda world, sent: move_clock(world, parse_time(sent["to"])),
    "POST events": events.emit,
    "POST health": lambda world, sent: fleets.set_answering(world, sent["instance_id"], answers=sent["answers"]),
    "POST seed": plant,
    "POST session": lambda world, sent: {"access_key": permissions.open_session(world, sent["instance_id"])},
}


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


def _signed_by(account: str, key: str, scope: Scope) -> Scope:
    """A request as the account's operator would sign it: the engine takes an account's number as the access key."""
    headers = [
        (name, value.replace(key.encode(), account.encode()) if name.lower() == b"authorization" else value)
        for name, value in scope["headers"]
    ]
    return {**scope, "headers": headers}


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
