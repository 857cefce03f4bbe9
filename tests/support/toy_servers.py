"""Model servers for tests: many HTTP servers on loopback that answer, stream, fall ill, die and come back."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self


class ToyServers:
    """`count` servers in one thread; each says its own number.

    `/health` is the health check, `/stream` sends a line every 50 ms until the server dies or `end_streams` is called,
    `/hang` never answers, `/work` is answered after 10 ms, and every other path at once.
    """

    def __init__(self, count: int, *, keep_alive_seconds: float | None = None) -> None:
        self.count, self._keep_alive_seconds = count, keep_alive_seconds
        self.ports: list[int] = []
        self.asked: Counter[str] = Counter()
        self.ill: set[int] = set()
        self._ending = False
        self._servers: dict[int, asyncio.Server] = {}
        self._held: list[socket.socket] = []
        self._writers: dict[int, set[asyncio.StreamWriter]] = {index: set() for index in range(count)}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._start_all())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill(*range(self.count))
        self._do(self._stop_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
        for each in self._held:
            each.close()

    def kill(self, *indices: int) -> None:
        """Stop servers as a crash does: ports closed, connections reset."""
        self._do(self._kill(indices))

    def start(self, *indices: int) -> None:
        """Start servers again on their old ports."""
        self._do(self._start(indices))

    def end_streams(self) -> None:
        """Let every running stream come to its proper end."""
        self._ending = True

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _start_all(self) -> None:
        # Bound and not listening: a dead server's port refuses connections, and nobody else gets it meanwhile.
        self._held = [socket.socket() for _ in range(self.count)]
        for each in self._held:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        self.ports = [each.getsockname()[1] for each in self._held]
        await self._start(range(self.count))

    async def _start(self, indices: Iterable[int]) -> None:
        for index in indices:
            self._servers[index] = await asyncio.start_server(self._handler(index), "127.0.0.1", self.ports[index])

    async def _kill(self, indices: Iterable[int]) -> None:
        for index in indices:
            if index in self._servers:
                self._servers.pop(index).close()
            for writer in list(self._writers[index]):
                writer.transport.abort()

    async def _stop_tasks(self) -> None:
        # A connection that was accepted just now has a task that has not begun: cancelled, it would not close it.
        await asyncio.sleep(0.05)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.05)  # transports close in a later turn of the loop

    def _handler(self, index: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers[index].add(writer)
            try:
                while line := await asyncio.wait_for(reader.readline(), self._keep_alive_seconds):
                    while (header := await reader.readline()) not in (b"\r\n", b""):
                        name, _, value = header.lower().partition(b":")
                        if name == b"content-length":
                            length = int(value)
                    if line.startswith(b"POST"):
                        await reader.readexactly(length)
                    await self._answer(index, line.split()[1].decode(), writer)
            except (ConnectionError, TimeoutError, asyncio.CancelledError):
                pass
            finally:
                self._writers[index].discard(writer)
                writer.transport.abort()

        return handle

    async def _answer(self, index: int, path: str, writer: asyncio.StreamWriter) -> None:
        if path == "/health":
            status = "503 Ill" if index in self.ill else "200 OK"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        self.asked[path] += 1
        if path == "/hang":
            await asyncio.sleep(60)
        if path == "/work":
            await asyncio.sleep(0.01)
        text = f"{index}\n"
        if path != "/stream":
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
            await writer.drain()
            return
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not self._ending:
            writer.write(f"{len(text):x}\r\n{text}\r\n".encode())
            await writer.drain()
            await asyncio.sleep(0.05)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
