"""The user's command `/etc/gpu-cluster/on-drain`, which saves what the end of the node would take."""

from __future__ import annotations

import os
import sys
import time

from .. import paths
from ..command import NOT_EXECUTABLE, NOT_FOUND, run
from ..events import Events


def run_on_drain(events: Events, reason: str, deadline_seconds: float) -> None:
    """Run it with the reason as its arguments; neither failure nor delay holds the node back.

    GPU_DRAIN_SECONDS in its environment says how long it may take; then it gets SIGTERM.

    Args:
        events: Where it is told.
        reason: Why the node ends.
        deadline_seconds: How long it may take.
    """
    command = paths.below("/etc/gpu-cluster/on-drain")
    if not os.access(command, os.X_OK):
        events.write("drain", "skipped", f"{reason}: no executable /etc/gpu-cluster/on-drain")
        return
    events.write("drain", "started", reason)
    begin, seconds = time.monotonic(), f"{deadline_seconds:.0f}"
    outcome = run(
        str(command),
        *reason.split(),
        timeout_seconds=deadline_seconds,
        environment={"GPU_DRAIN_SECONDS": seconds},
    )
    spent = time.monotonic() - begin
    if outcome.output:
        sys.stderr.write(outcome.output)
    if outcome.ok:
        events.write("drain", "ok", reason, seconds=spent)
    elif outcome.hung:
        events.write("drain", "failed", f"on-drain was still running after {seconds} s", seconds=spent)
    elif outcome.status in (NOT_FOUND, NOT_EXECUTABLE):
        events.write("drain", "failed", outcome.words, seconds=spent)
    else:
        events.write("drain", "failed", f"on-drain exited with {outcome.status}", seconds=spent)
