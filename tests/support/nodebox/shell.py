"""Commands for a virtual machine, over a port of it on which its `outside-shell` listens."""

from __future__ import annotations

import base64
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# How a command ends that the machine did not survive.
_CUT_OFF = 255


class Shell:
    """Runs commands in a machine, one at a time.

    Args:
        path: Where the machine connects to, each time that it starts.
        is_on: Whether it runs.
    """

    def __init__(self, path: Path, is_on: Callable[[], bool]) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._listening.settimeout(1)
        self._is_on = is_on
        self._connection: socket.socket | None = None

    def run(self, command: str, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
        """Run a command with bash, as soon as the machine is ready for it.

        A machine that reboots meanwhile ends it with status 255.
        """
        connection = self._connected()
        connection.settimeout(timeout_seconds)
        line = b""
        with suppress(ConnectionError):
            connection.sendall(base64.b64encode(command.encode()) + b"\n")
            while not line.endswith(b"\n") and (chunk := connection.recv(65_536)):
                line += chunk
        if not line.endswith(b"\n"):
            self._hang_up()
            return subprocess.CompletedProcess(command, _CUT_OFF, "", "the machine has gone")
        status, *texts = line.decode().strip().split(":")
        output, errors = (base64.b64decode(text).decode(errors="replace") for text in texts)
        return subprocess.CompletedProcess(command, int(status), output, errors)

    def close(self) -> None:
        """Let go of the port."""
        self._hang_up()
        self._listening.close()

    def _hang_up(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def _connected(self) -> socket.socket:
        while self._connection is None:
            assert self._is_on(), "the machine is off"
            with suppress(TimeoutError):
                self._connection, _ = self._listening.accept()
        return self._connection
