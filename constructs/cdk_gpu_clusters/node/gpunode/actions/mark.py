"""Keeps new work away from a node that is about to end."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..events import Events
from .orchestrator import Orchestrator

_TRIES = 3
_PAUSE_SECONDS = 2


def marker(orchestrator: Orchestrator | None, events: Events) -> Callable[[str], None]:
    """What a drain calls first, with the reason.

    A Spot notice leaves two minutes, which belong to the user's command: it is tried a few times, and a node that
    could not be marked is drained all the same.

    Args:
        orchestrator: Who gives work to the node; None: nobody is told.
        events: Where it is told.
    """

    def mark(reason: str) -> None:
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

    return mark
