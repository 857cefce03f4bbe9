"""Passes the stages of a boot, and completes the launch: CONTINUE when all hold, ABANDON when one cannot."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

from .. import paths
from ..events import Events
from ..lifecycle import complete_hook
from ..node import Node
from .stage import Stage, State, Verdict, pass_stage

_READY, _FAILED = 0, 1
# The answer must still get out when the stages used up all their time.
_HOOK_MARGIN_SECONDS = 300


def boot(
    node: Node,
    events: Events,
    stages: Sequence[Stage],
    *,
    tell: Callable[[], None],
    collect: Callable[[str], None],
) -> int:
    """Pass the stages, in their order.

    CompleteLifecycleAction takes no reason, so the reason goes first to `boot.json`, the journal, the serial console
    and AWS, with the evidence. A reboot checks again and completes nothing.

    Args:
        node: This node.
        events: Where it is told.
        stages: What must hold.
        tell: Carries the events to AWS.
        collect: Keeps the evidence of a failure, given its reason, where it outlives the node.

    Returns:
        Exit status: 0 for a node that is ready, 1 for one that is not.
    """
    launch = _Launch(node, events)
    events.write("node", "started")
    _write_result(node, events, "starting", "", first_boot=launch.is_first)
    until = node.settings.number("boot_deadline", 900)
    for stage in stages:
        verdict = pass_stage(stage, node, events, until_uptime_seconds=until)
        if verdict.state is State.FAILED:
            reason = f"{stage.name}: {verdict.reason}"
            _fail(node, events, verdict, reason, first_boot=launch.is_first)
            collect(reason)
            tell()
            launch.complete("ABANDON", until)
            return _FAILED
    events.write("node", "ready", seconds=paths.uptime_seconds())
    _write_result(node, events, "ready", "", first_boot=launch.is_first)
    launch.complete("CONTINUE", until)
    tell()
    return _READY


class _Launch:
    """The launching hook, completed once in the life of the instance.

    Attributes:
        is_first: Whether this is the boot of the launch.
    """

    def __init__(self, node: Node, events: Events) -> None:
        self._node, self._events = node, events
        self._marker = paths.state_folder() / f"launched-{node.instance_id}"
        self.is_first = not self._marker.exists()

    def complete(self, result: str, until_uptime_seconds: float) -> None:
        """Complete it, if this is the first boot and there is a hook."""
        if not self.is_first or not self._node.instance_id:
            return
        hook = self._node.settings.text("launch_hook")
        until = until_uptime_seconds + _HOOK_MARGIN_SECONDS
        if not hook or complete_hook(
            self._node, self._events, hook, result, phase="Pending", until_uptime_seconds=until
        ):
            self._marker.touch()


def _fail(node: Node, events: Events, verdict: Verdict, reason: str, *, first_boot: bool) -> None:
    events.write("node", "failed", reason, seconds=paths.uptime_seconds(), fix=verdict.fix)
    _write_result(node, events, "failed", reason, first_boot=first_boot, fix=verdict.fix)
    try:
        console = paths.below("/dev/console")
        console.write_text(f"gpunode: {node.instance_id} failed: {reason}\n", encoding="utf-8")
    except OSError as fault:
        sys.stderr.write(f"no console: {fault}\n")


def _write_result(
    node: Node, events: Events, state: str, reason: str, *, first_boot: bool, fix: str = ""
) -> None:
    """Write what happened, for people and for later checks."""
    result = {
        "state": state,
        "reason": reason,
        "fix": fix,
        "instance_id": node.instance_id,
        "boot_id": paths.boot_id(),
        "first_boot": first_boot,
        "uptime_seconds": int(paths.uptime_seconds()),
        "events": events.written,
    }
    paths.write_atomically(paths.state_folder() / "boot.json", json.dumps(result) + "\n")
