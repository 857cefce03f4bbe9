"""Whether this node may work, as its watchdog finds, and the answer to `GET /healthz`.

The server listens on loopback. With GPU_HEALTH_FROM, it also listens on the primary interface, for clients of these
ranges only, such as the application status checks of EC2. With GPU_METRICS_PORT, it also answers `GET /metrics` at that
port, on loopback and the primary interface.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

from . import paths
from .checks.check import Severity
from .metrics.exposition import CONTENT_TYPE, exposition
from .node import Node
from .quoting import one_line
from .redaction import redacted
from .state import announced

#: Not assigned by IANA, and neither in the range of Kubernetes' node ports nor of Linux's outgoing connections. Nothing
#: that is usual on GPU nodes has it: exporters of DCGM (9400) and node (9100), Slurm (6817 to 6819), kubelet (10250),
#: Ray (6379, 8265), model servers (8000, 8080).
PORT = 8687
# systemd's watchdog ends a loop that is late by a minute. This is half of it, and more than the waits of one poll.
_LATE_SECONDS = 30.0
_MOST_REASONS, _LONGEST_REASON = 5, 200


@dataclass(frozen=True)
class Health:
    """Whether this node may work.

    Attributes:
        state: `ok`, `starting`, `unhealthy`, `repairing`, `ending` or `late`.
        severity: Worst severity that the watchdog observes.
        reasons: Why, without secrets.
    """

    state: str
    severity: Severity
    reasons: tuple[str, ...] = ()

    @property
    def may_work(self) -> bool:
        """Whether nothing is against work on this node."""
        return self.state == "ok"


def assess(known: Mapping[str, Any], *, acts_from: Severity, dry_run: bool, late_seconds: float) -> Health:
    """Assess the node by what its watchdog stored.

    Args:
        known: State of the watchdog; empty if there is none yet.
        acts_from: Least severity at which the watchdog acts.
        dry_run: Whether it only reports. Then no one else must act on its finding.
        late_seconds: Age of a state from which the watchdog counts as late.
    """
    severity, reasons = _severity(known), symptoms_of(known)
    ending = announced()
    if ending:
        return Health("ending", severity, (_clean(ending),))
    if not known:
        return Health("starting", Severity.UNKNOWN, ("the watchdog has stored no state yet",))
    age = paths.uptime_seconds() - _number(known.get("at"))
    if age > late_seconds:
        return Health("late", severity, (f"the watchdog has not polled for {age:.0f} s",))
    repair = known.get("repair")
    if repair and not dry_run:
        return Health("repairing", severity, (_clean(str(repair)), *reasons)[:_MOST_REASONS])
    if severity >= acts_from and not dry_run:
        return Health("unhealthy", severity, reasons)
    return Health("ok", severity, reasons)


def symptoms_of(known: Mapping[str, Any]) -> tuple[str, ...]:
    """The reasons of the watchdog's open and handled cases, then of the symptoms that require no action."""
    cases = [case for name in ("open", "handled") for case in _list(known.get(name)) if isinstance(case, dict)]
    symptoms = [case["symptom"] for case in cases if isinstance(case.get("symptom"), dict)]
    reasons = [*(symptom.get("reason") for symptom in symptoms), *_list(known.get("seen"))]
    return tuple(dict.fromkeys(_clean(str(reason)) for reason in reasons[: 2 * _MOST_REASONS]))[:_MOST_REASONS]


def late_seconds(interval_seconds: float) -> float:
    """Age of the watchdog's state from which it is late: half a minute, or three polls if they are longer."""
    return max(_LATE_SECONDS, 3 * interval_seconds)


def _clean(text: str) -> str:
    return one_line(redacted(one_line(text)), _LONGEST_REASON)


def _severity(known: Mapping[str, Any]) -> Severity:
    try:
        return Severity(int(known.get("severity", Severity.UNKNOWN)))
    except (TypeError, ValueError):
        return Severity.UNKNOWN


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


# One thread serves all clients without waiting for any. A client that is slow, or that never ends, loses only its own
# connection.

_MOST_CLIENTS = 64
_CLIENT_SECONDS = 2.0
_LONGEST_REQUEST_BYTES = 4096
_RETRY_SECONDS = 60.0
_PAUSE_SECONDS, _IDLE_SECONDS = 0.5, 5.0
_REQUEST = re.compile(rb"(GET|HEAD|[A-Z]{1,20}) (\S{1,2000}) HTTP/1\.[01]\r?\n")
_STATUS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


@dataclass
class _Client:
    """A connection. It is closed once it has its answer and ends, or at its deadline."""

    peer: socket.socket
    ends_at: float
    request: bytearray = field(default_factory=bytearray)
    is_answered: bool = False
    page: bytes = b"/healthz"
    unsent: bytes = b""


class HealthServer:
    """Answers `GET /healthz`: 200 while the node may work, otherwise 503, with a short JSON object."""

    def __init__(
        self,
        health: Callable[[], Health],
        clock: Callable[[], float] = time.monotonic,
        metrics: Callable[[], str] = str,
    ) -> None:
        """Prepare it.

        Args:
            health: Assesses the node.
            metrics: Returns the text of `/metrics`.
        """
        self._health, self._clock, self._metrics = health, clock, metrics
        self._selector = selectors.DefaultSelector()
        self._clients: dict[socket.socket, _Client] = {}
        self._state, self._since = "", 0.0

    def listen(self, address: str, port: int, ranges: Sequence[str] = (), page: bytes = b"/healthz") -> int:
        """Listen on an address, and return its port.

        Args:
            port: 0 for any free one.
            ranges: CIDR ranges of the clients that are answered; empty for all.
            page: The only path that is served there.

        Raises:
            OSError: If the address or port is not free.
        """
        listener = socket.create_server((address, port), backlog=_MOST_CLIENTS)
        listener.setblocking(False)
        allowed = [ip_network(one, strict=False) for one in ranges]
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener, allowed, page))
        return int(listener.getsockname()[1])

    def serve(self) -> None:
        """Serve until the process ends."""
        while True:
            try:
                self.step(_PAUSE_SECONDS if self._clients else _IDLE_SECONDS)
                self._look()
            except Exception as fault:  # noqa: BLE001, PERF203 - without an answer, the node would be replaced
                sys.stderr.write(f"/healthz: {type(fault).__name__}: {one_line(str(fault))}\n")
                time.sleep(_PAUSE_SECONDS)

    def step(self, seconds: float) -> None:
        """Serve the clients that are ready, and drop those whose time is up.

        Args:
            seconds: How long to wait for one.
        """
        for key, _ in self._selector.select(seconds):
            with suppress(OSError):
                key.data()
        now = self._clock()
        for client in [client for client in self._clients.values() if client.ends_at <= now]:
            self._close(client)

    def _accept(self, listener: socket.socket, allowed: Sequence[Any], page: bytes) -> None:
        peer, address = listener.accept()
        if allowed and not any(ip_address(address[0]) in one for one in allowed):
            peer.close()
            return
        if len(self._clients) >= _MOST_CLIENTS:
            self._close(next(iter(self._clients.values())))
        peer.setblocking(False)
        client = self._clients[peer] = _Client(peer, self._clock() + _CLIENT_SECONDS, page=page)
        self._selector.register(peer, selectors.EVENT_READ, lambda: self._read(client))

    def _read(self, client: _Client) -> None:
        try:
            data = client.peer.recv(_LONGEST_REQUEST_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(client)
        elif not client.is_answered:
            client.request += data
            is_complete = b"\r\n\r\n" in client.request or b"\n\n" in client.request
            if is_complete or len(client.request) >= _LONGEST_REQUEST_BYTES:
                self._answer(client, is_complete=is_complete)

    def _answer(self, client: _Client, *, is_complete: bool) -> None:
        client.is_answered = True
        client.unsent = self._respond(bytes(client.request) if is_complete else b"", client.page)
        self._send(client)

    def _send(self, client: _Client) -> None:
        """Send what the connection takes now, and the rest of a long answer once it takes more."""
        with suppress(BlockingIOError):
            client.unsent = client.unsent[client.peer.send(client.unsent) :]
        if client.unsent:
            self._selector.modify(client.peer, selectors.EVENT_WRITE, lambda: self._send(client))
        else:
            client.peer.shutdown(socket.SHUT_WR)
            self._selector.modify(client.peer, selectors.EVENT_READ, lambda: self._read(client))

    def _respond(self, request: bytes, page: bytes) -> bytes:
        found = _REQUEST.match(request)
        if found is None:
            return _response(400, {})
        if found[2] != page:
            return _response(404, {})
        if found[1] not in (b"GET", b"HEAD"):
            return _response(405, {})
        with_body = found[1] == b"GET"
        if page == b"/metrics":
            return _message(200, CONTENT_TYPE, self._metrics().encode(), with_body=with_body)
        health = self._look()
        body = {
            "state": health.state,
            "severity": health.severity.name.lower(),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._since)),
            "reasons": list(health.reasons),
        }
        return _response(200 if health.may_work else 503, body, with_body=with_body)

    def _look(self) -> Health:
        health = self._health()
        if health.state != self._state:
            self._state, self._since = health.state, time.time()
        return health

    def _close(self, client: _Client) -> None:
        self._clients.pop(client.peer, None)
        with suppress(KeyError, ValueError):
            self._selector.unregister(client.peer)
        client.peer.close()


def _response(status: int, content: Mapping[str, Any], *, with_body: bool = True) -> bytes:
    return _message(status, "application/json", f"{json.dumps(content)}\n".encode(), with_body=with_body)


def _message(status: int, content_type: str, body: bytes, *, with_body: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {_STATUS[status]}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
        *(["Allow: GET, HEAD"] if status == 405 else []),
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + (body if with_body else b"")


def serve_health(node: Node, health: Callable[[], Health]) -> None:
    """Serve in the background. A node that cannot listen is still watched, and tries again every minute."""
    port, ranges = node.settings.number("health_port", PORT), node.settings.words("health_from")
    metrics_port = node.settings.number("metrics_port", 0)
    if port or metrics_port:
        server = HealthServer(health, metrics=lambda: exposition(node))
        serve = lambda: _serve(node, server, port, ranges, metrics_port)  # noqa: E731
        with suppress(RuntimeError):  # no thread
            threading.Thread(target=serve, daemon=True, name="healthz").start()


def _serve(node: Node, server: HealthServer, port: int, ranges: Sequence[str], metrics_port: int) -> None:
    loopback, primary = lambda: "127.0.0.1", lambda: node.metadata.wait_for("local-ipv4")
    if port:
        _listen(server, loopback, port, ())
    if metrics_port:
        _listen(server, loopback, metrics_port, (), b"/metrics")
        _listen(server, primary, metrics_port, (), b"/metrics")
    if port and ranges:
        _listen(server, primary, port, ranges)
    server.serve()


def _listen(
    server: HealthServer,
    address: Callable[[], str],
    port: int,
    ranges: Sequence[str],
    page: bytes = b"/healthz",
) -> None:
    """Listen, or try again in threads of its own, since another program may have the port for now."""
    try:
        server.listen(address() or "no address", port, ranges, page)
    except (OSError, ValueError) as fault:
        sys.stderr.write(f"{page.decode()} cannot listen on port {port}: {one_line(str(fault))}\n")
        again = threading.Timer(_RETRY_SECONDS, _listen, (server, address, port, ranges, page))
        again.daemon = True
        again.start()
