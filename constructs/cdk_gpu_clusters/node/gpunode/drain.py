"""The end of a node: why it comes, and what is done before it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from . import paths
from .command import NOT_EXECUTABLE, NOT_FOUND, run
from .events import Events
from .lifecycle import complete_hook
from .node import Node

_POLL_SECONDS = 5
_HOOK_SECONDS = 300
TERMINATION = "autoscaling-termination"
SPOT = "spot-interruption"
REBALANCE = "rebalance-recommendation"


def ending(node: Node) -> str:
    """Why this node ends, as its metadata say it; empty while nothing says so."""
    if node.metadata.get("autoscaling/target-lifecycle-state") == "Terminated":
        return TERMINATION
    notice = node.metadata.get("spot/instance-action")
    if notice:
        return f"{SPOT} {_time_of(notice)}".strip()
    return ""


def hint(node: Node) -> str:
    """A hint that a Spot instance is at risk; it may stay all the same, so that nothing is drained for it."""
    notice = node.metadata.get("events/recommendations/rebalance")
    return f"{REBALANCE} {_time_of(notice)}".strip() if notice else ""


def watch_for_end(
    node: Node, events: Events, *, mark: Callable[[str], None], tell: Callable[[], None]
) -> int:
    """Wait for the end, run the user's command once, and complete the terminating hook.

    Args:
        node: This node.
        events: Where it is told.
        mark: Keeps new work away, given the reason.
        tell: Carries the events to AWS.

    Returns:
        Exit status 0, once nothing is left to do.
    """
    drained, hinted = False, ""
    while True:
        warning = hint(node)
        if warning and warning != hinted:
            events.write("drain", "hint", warning)
            hinted = warning
        reason = ending(node)
        if reason and not drained:
            mark(reason)
            drain(node, events, reason)
            drained = True
            tell()
        # A Spot notice may be followed by the group's own termination, whose hook is still to be completed.
        if reason == TERMINATION:
            hook = node.settings.text("terminate_hook")
            if hook:
                until = paths.uptime_seconds() + _HOOK_SECONDS
                complete_hook(node, events, hook, "CONTINUE", phase="Terminating", until_uptime_seconds=until)
            return 0
        time.sleep(_POLL_SECONDS)


def drain(node: Node, events: Events, reason: str) -> None:
    """Run the user's `on-drain` with the reason and its deadline; neither failure nor delay holds the node back."""
    command = paths.below("/etc/gpu-cluster/on-drain")
    if not os.access(command, os.X_OK):
        events.write("drain", "skipped", f"{reason}: no executable /etc/gpu-cluster/on-drain")
        return
    events.write("drain", "started", reason)
    begin, deadline = time.monotonic(), node.settings.number("drain_deadline", 90)
    outcome = run(str(command), *reason.split(), timeout_seconds=deadline)
    spent = time.monotonic() - begin
    if outcome.ok:
        events.write("drain", "ok", reason, seconds=spent)
    elif outcome.hung:
        events.write("drain", "failed", f"on-drain was still running after {deadline} s", seconds=spent)
    elif outcome.status in (NOT_FOUND, NOT_EXECUTABLE):
        events.write("drain", "failed", outcome.words, seconds=spent)
    else:
        events.write("drain", "failed", f"on-drain exited with {outcome.status}", seconds=spent)


def _time_of(notice: str) -> str:
    try:
        found = json.loads(notice)
        return str(found.get("time") or found.get("noticeTime") or "")
    except (ValueError, AttributeError):
        return ""
