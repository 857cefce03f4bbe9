"""The agent of Systems Manager on a node that boots: it runs commands as root, and reports what came of them."""

from __future__ import annotations

import subprocess
import threading
from contextlib import suppress

from nodebox.node import Node

_PAUSE_SECONDS = 0.5


class Agent:
    """Takes commands while its node is on, in a `with` statement.

    Args:
        node: The node.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)

    def _serve(self) -> None:
        reports: list[dict[str, object]] = []
        while not self._ended.wait(_PAUSE_SECONDS):
            if not self._node.is_on:
                continue
            commands = self._node.fleet.take_commands(self._node.instance_id, reports)
            reports = []
            for one in commands:
                # The machine may end meanwhile.
                with suppress(AssertionError, subprocess.SubprocessError):
                    done = self._node.run(one["script"], check=False)
                    output = done.stdout + done.stderr
                    reports.append({"command_id": one["command_id"], "status": done.returncode, "output": output})
