"""Sends what the ranks of a job print to the log group of the fleet, a few seconds later, and keeps it on the node."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from .. import paths
from ..node import AwsError, Node
from ..quoting import one_line
from ..shipping import put_events

#: Where the output of jobs is kept on a node.
FOLDER = "/var/log/gpu-jobs"
# CloudWatch user guide, quotas: one call per stream takes 1 MB; the CLI takes most of a second of a processor.
_PAUSE_SECONDS = 3.0
_LONGEST_LINE = 16_384
# What a call carries, and what waits at most while AWS does not answer: a job that prints more is not slowed down.
_CALL_BYTES, _CALL_LINES = 400_000, 5_000
_WAITING_LINES = 50_000


class Output:
    """The output of a job on this node: a file, and a log stream.

    Args:
        node: This node.
        stream_name: The log stream.
        job_id: The job.
    """

    def __init__(self, node: Node, stream_name: str, job_id: str) -> None:
        self._node, self._stream = node, stream_name
        folder = paths.below(FOLDER)
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.file: Path = folder / f"{job_id}.log"
        self._copies = self.file.open("a", encoding="utf-8", buffering=1)
        self._waiting: deque[tuple[int, str]] = deque()
        self._dropped = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._sender = threading.Thread(target=self._send, daemon=True)
        self._sender.start()

    def say(self, words: str) -> None:
        """Add a line of this program."""
        self._add(f"gpunode: {one_line(words)}")

    def copy(self, stream: IO[bytes]) -> threading.Thread:
        """Add the lines of a stream, until it ends, in a thread of its own."""
        thread = threading.Thread(target=self._copy, args=(stream,), daemon=True)
        thread.start()
        return thread

    def close(self, seconds: float = 30) -> None:
        """Send what waits."""
        self._ended.set()
        self._sender.join(seconds)

    def _copy(self, stream: IO[bytes]) -> None:
        # A progress bar that only returns to the start of its line is cut into lines, too.
        for line in iter(lambda: stream.readline(_LONGEST_LINE), b""):
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            self._add(text.rpartition("\r")[2])

    def _add(self, line: str) -> None:
        with self._lock:
            with suppress(OSError):
                self._copies.write(line + "\n")
            self._waiting.append((int(time.time() * 1000), line))
            while len(self._waiting) > _WAITING_LINES:
                self._waiting.popleft()
                self._dropped += 1

    def _send(self) -> None:
        while not self._ended.wait(_PAUSE_SECONDS):
            self._send_once()
        while self._send_once():
            pass

    def _send_once(self) -> bool:
        """Send one call's worth of lines; whether that worked and there are more."""
        events = self._take()
        if not events:
            return False
        try:
            put_events(self._node, self._node.settings.text("log_group"), self._stream, events)
        except AwsError as fault:
            # Once more later, unless AWS will never take them.
            if "InvalidParameter" not in str(fault):
                with self._lock:
                    self._waiting.extendleft((one["timestamp"], one["message"]) for one in reversed(events))
                return False
        return bool(self._waiting)

    def _take(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        size = 0
        with self._lock:
            if self._dropped:
                words = f"gpunode: {self._dropped} lines were not sent; {self.file} on this node has them"
                events.append({"timestamp": int(time.time() * 1000), "message": words})
                self._dropped = 0
            while self._waiting and len(events) < _CALL_LINES and size < _CALL_BYTES:
                when, line = self._waiting.popleft()
                size += len(line.encode())
                # CloudWatch Logs takes no empty message.
                events.append({"timestamp": when, "message": line or " "})
        return sorted(events, key=lambda one: int(one["timestamp"]))
