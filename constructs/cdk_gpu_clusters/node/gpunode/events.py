"""Events, one JSON line each: to the journal by standard output, and to a spool that is sent to AWS later."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from . import spool
from .metrics.record import counted
from .quoting import one_line
from .redaction import redacted


class Events:
    """Writes events of one program of the node.

    Attributes:
        instance_id: The node, in every event.
        written: Events of this process, in order.
    """

    def __init__(self, instance_id: str = "") -> None:
        self.instance_id = instance_id
        self.written: list[dict[str, Any]] = []

    def write(self, stage: str, state: str, reason: str = "", *, seconds: float = 0, **more: Any) -> dict[str, Any]:
        """Write one event. Texts are quoted, and secrets in them left out: they may come from outside.

        Args:
            stage: Its subject: a boot stage, a check, an action.
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
            "reason": _quoted(reason),
            **{name: _quoted(value) if isinstance(value, str) else value for name, value in more.items()},
        }
        self.written.append(event)
        with suppress(OSError):
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()
        spool.keep("events", {**event, **counted(event)})
        return event


def _quoted(text: str) -> str:
    return one_line(redacted(one_line(text)))
