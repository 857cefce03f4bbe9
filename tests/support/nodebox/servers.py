"""Servers of this process on sockets that listen inside a node's network."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """An HTTP server on a socket that is there already.

    Args:
        listening: The socket.
        handler: Class of its requests.
    """

    request_queue_size = 128

    def __init__(
        self,
        listening: socket.socket,
        handler: type[socketserver.BaseRequestHandler] = BaseHTTPRequestHandler,
    ) -> None:
        super().__init__(listening.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()


def relay(
    listening: socket.socket,
    target: tuple[str, int],
    connect: Callable[[tuple[str, int]], socket.socket] = socket.create_connection,
) -> Server:
    """Hand each connection on to an address outside the node's network, or in the one in which `connect` connects."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with connect(target) as outside:
                back = threading.Thread(target=_copy, args=(outside, self.request))
                back.start()
                _copy(self.request, outside)
                back.join()

    return Server(listening, Connection)


def _copy(source: socket.socket, target: socket.socket) -> None:
    # Either side may hang up at any time.
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
