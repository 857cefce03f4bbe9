"""`python -m gpu_clusters_emulator --port 0`: serve the emulator over HTTP, on 127.0.0.1 only."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import threading
from collections.abc import Sequence
from typing import Any

HOST = "127.0.0.1"


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is ended; the first line on stdout is JSON with the endpoint."""
    parser = argparse.ArgumentParser(prog="python -m gpu_clusters_emulator", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--stop-with-stdin", action="store_true", help="end when standard input closes")
    options = parser.parse_args(arguments)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, options.port))
    listener.listen()  # a caller may connect as soon as it knows the port; the server takes over the queue
    port = listener.getsockname()[1]
    os.environ |= {"GATEWAY_PORT": str(port), "MINISTACK_HOST": HOST}
    if options.stop_with_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    asyncio.run(_serve(listener, port))


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)  # nothing is persisted, so there is nothing to put away


async def _serve(listener: socket.socket, port: int) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    from .engine import engine  # reads the port from the environment when it is imported
    from .front import Front

    config = Config()
    config.bind = [f"fd://{listener.fileno()}"]
    config.keep_alive_timeout = 75
    config.loglevel = "ERROR"
    front: Any = Front(engine())
    sys.stdout.write(json.dumps({"endpoint_url": f"http://{HOST}:{port}"}) + "\n")
    sys.stdout.flush()
    await serve(front, config)


if __name__ == "__main__":
    main()
