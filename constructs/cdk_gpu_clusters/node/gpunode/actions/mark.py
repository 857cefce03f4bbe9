"""Keeps new work away from a node that is about to end."""

from __future__ import annotations

import time

from ..events import Events
from .orchestrator import Orchestrator

_TRIES = 3
_PAUSE_SECONDS = 2


def mark_ending(orchestrator: Orchestrator | None, events: Events, reason: str) -> None:
    """Tell the orchestrator; it is tried a few times, and a node that could not be marked is drained all the same.

    Args:
        orchestrator: Who gives work to the node; None: nobody is told.
        events: Where it is told.
        reason: Why the node ends.
    """
    if orchestrator is None:
        return
    for number in range(_TRIES):
        if number:
            time.sleep(_PAUSE_SECONDS)
        try:
            orchestrator.keep_new_work_away(reason)
        except Exception as fault:  # noqa: BLE001 - the drain goes on whatever happens here
            events.write("mark", "failed", str(fault) or type(fault).__name__)
        else:
            events.write("mark", "ok", reason)
            return
