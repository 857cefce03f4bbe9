"""What happened, one JSON line each: to the journal by standard output, and to a spool that is carried to AWS later."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from . import paths

#: A spool that nobody empties must not fill the disk: beyond this, the oldest half goes.
SPOOL_LIMIT_BYTES = 4 * 1024 * 1024


class Events:
    """Writes events of one program of the node.

    Attributes:
        instance_id: The node, in every event.
        written: Events of this process, in their order.
    """

    def __init__(self, instance_id: str = "", *, spool: str = "events") -> None:
        self.instance_id = instance_id
        self.written: list[dict[str, Any]] = []
        self._spool = spool

    def write(
        self, stage: str, state: str, reason: str = "", *, seconds: float = 0, **more: Any
    ) -> dict[str, Any]:
        """Write one event.

        Args:
            stage: What it is about: a boot stage, a check, an action.
            state: A word such as `started`, `waiting`, `ok`, `failed`, `skipped`.
            reason: Why, in a sentence.
            seconds: How long it took.
            more: Further fields.
        """
        event = {
            "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "instance_id": self.instance_id,
            "stage": stage,
            "state": state,
            "seconds": round(seconds, 1),
            "reason": reason,
            **more,
        }
        self.written.append(event)
        with suppress(OSError):
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()
        spool(self._spool, event)
        return event


def spool(name: str, record: Mapping[str, Any]) -> None:
    """Keep a record until it is carried to AWS; a disk that takes nothing must not stop the node's work.

    Args:
        name: Spool, such as `events` or `metrics`.
        record: Anything that JSON can hold.
    """
    line = json.dumps({"timestamp": int(time.time() * 1000), "message": json.dumps(record)})
    try:
        file = spool_file(name)
        with file.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
        if file.stat().st_size > SPOOL_LIMIT_BYTES:
            _halve(file)
    except OSError as fault:
        sys.stderr.write(f"the spool {name} takes nothing: {fault}\n")


def spool_file(name: str) -> Path:
    """The file of a spool."""
    folder = paths.state_folder() / "spool"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.jsonl"


def _halve(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    paths.write_atomically(file, "".join(lines[len(lines) // 2 :]))
