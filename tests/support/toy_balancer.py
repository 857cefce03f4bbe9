"""An Application Load Balancer for tests, as far as a target notices it: health checks, routing, deregistration.

Sources: Elastic Load Balancing user guide for Application Load Balancers, "Target group health checks" (thresholds; if all
targets are unhealthy, requests go to all), "Target group attributes" (least outstanding requests; a deregistering target
gets no new requests, and its running ones have the deregistration delay) and "Troubleshoot" (HTTP 502: the target closed
the connection before it answered). A request is sent once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_REQUEST = b"POST /work HTTP/1.1\r\nHost: models\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class Target:
    """A node behind the balancer.

    Attributes:
        port: Where it listens.
        is_healthy: What the health checks found.
        is_draining: Whether it is being deregistered.
        outstanding: Requests that it has not answered.
        was_healthy: Set when it is healthy for the first time.
    """

    port: int
    is_healthy: bool = False
    is_draining: bool = False
    outstanding: int = 0
    was_healthy: asyncio.Event = field(default_factory=asyncio.Event)
    checked: list[bool] = field(default_factory=list)
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)


class ToyBalancer:
    """Sends requests to its targets, and counts the answers by their status; 0 is a connection that broke.

    Args:
        health_path: Path of the health check.
        second: How long a second is here.
    """

    INTERVAL_SECONDS, TIMEOUT_SECONDS, THRESHOLD = 10, 5, 2

    def __init__(self, health_path: str, *, second: float) -> None:
        self.answers: Counter[int] = Counter()
        self.targets: list[Target] = []
        self._health_path, self._second = health_path, second
        self._checks: list[asyncio.Task[None]] = []
        self._goes = asyncio.Event()
        self._goes.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def register(self, port: int) -> Target:
        """Add a target, and wait until it is healthy."""
        target = Target(port)
        self.targets.append(target)
        self._checks.append(asyncio.create_task(self._check(target)))
        await target.was_healthy.wait()
        return target

    async def deregister(self, target: Target, delay_seconds: float) -> None:
        """Send it nothing more, and wait for its running requests, or for the deregistration delay."""
        target.is_draining = True
        for _ in range(int(delay_seconds)):
            if not target.outstanding:
                break
            await asyncio.sleep(self._second)
        self.targets.remove(target)

    @asynccontextmanager
    async def pause(self) -> AsyncIterator[None]:
        """No request is sent, and none is running."""
        self._goes.clear()
        while any(target.outstanding for target in self.targets):  # noqa: ASYNC110 - each ends by itself
            await asyncio.sleep(self._second)
        yield
        self._goes.set()

    async def load(self, requests: int, concurrent: int, until: asyncio.Event) -> None:
        """Send so many requests, and more until something else is done."""
        left = requests

        async def client() -> None:
            nonlocal left
            while left > 0 or not until.is_set():
                left -= 1
                await self._goes.wait()
                await self._send()

        await asyncio.gather(*(client() for _ in range(concurrent)))

    async def close(self) -> None:
        """End the health checks and close all connections."""
        for check in self._checks:
            check.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0.05)  # transports close in a later turn of the loop

    async def _send(self) -> None:
        open_ = [target for target in self.targets if not target.is_draining]
        target = min([one for one in open_ if one.is_healthy] or open_, key=lambda one: one.outstanding)
        target.outstanding += 1
        try:
            self.answers[await self._answer(target)] += 1
        finally:
            target.outstanding -= 1

    async def _answer(self, target: Target) -> int:
        try:
            reader, writer = await self._connection(target)
            writer.write(_REQUEST)
            status, is_kept = await _read_answer(reader)
        except (OSError, asyncio.IncompleteReadError):
            return 0
        if is_kept:
            target.idle.append((reader, writer))
        return status

    async def _connection(self, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while target.idle:
            reader, writer = target.idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
        return await self._open(target.port)

    async def _open(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self._writers.add(writer)
        return reader, writer

    async def _check(self, target: Target) -> None:
        while True:
            try:
                is_good = await asyncio.wait_for(self._health(target.port), self.TIMEOUT_SECONDS * self._second)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                is_good = False
            target.checked = [*target.checked, is_good][-self.THRESHOLD :]
            if target.checked == [not target.is_healthy] * self.THRESHOLD:
                target.is_healthy = not target.is_healthy
                target.was_healthy.set()
            await asyncio.sleep(self.INTERVAL_SECONDS * self._second)

    async def _health(self, port: int) -> bool:
        reader, writer = await self._open(port)
        writer.write(f"GET {self._health_path} HTTP/1.1\r\nHost: models\r\n\r\n".encode())
        status, _ = await _read_answer(reader)
        writer.transport.abort()
        return status == 200


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Status of a complete answer, and whether the connection is kept."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next((int(line.partition(":")[2]) for line in head.splitlines() if line.startswith("content-length")), 0)
    await reader.readexactly(length)
    return int(head.split()[1]), "connection: close" not in head
