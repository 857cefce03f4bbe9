"""Programs that a node calls and that run outside it, on this machine: clients of services that are here."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from fakes.nvidia_smi import CLIENT, Handler
from nodebox.servers import Server

_TIMEOUT_SECONDS = 60


class OutsidePrograms:
    """Some programs, by their paths on this machine.

    Args:
        programs: Their paths by their names.
        environment: Variables that they get.

    Attributes:
        after_call: Called with each command line once it is done, before the node gets the answer.
    """

    def __init__(self, programs: Mapping[str, Path], environment: Mapping[str, str]) -> None:
        self.programs, self._environment = programs, {**os.environ, **environment}
        self.after_call: Callable[[str], None] = lambda _: None

    @staticmethod
    def client(name: str, address: str) -> str:
        """What a node has in the place of a program that is served at an address of its network."""
        return CLIENT.replace("\n", f"\nFAKE_NVIDIA_SMI=http://{address}/{name}\n", 1)

    def serve(self, listening: socket.socket) -> Server:
        """Run what the clients ask for."""
        outside = self

        class Call(Handler):
            def answer(self, arguments: list[str]) -> tuple[int, str]:
                return outside.run(self.path.strip("/"), arguments)

        return Server(listening, Call)

    def run(self, name: str, arguments: list[str]) -> tuple[int, str]:
        """The exit status of a call, and what it prints."""
        done = subprocess.run(
            [self.programs[name], *arguments],
            env=self._environment, check=False, text=True, timeout=_TIMEOUT_SECONDS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.after_call(" ".join([name, *arguments]))
        return done.returncode, done.stdout
