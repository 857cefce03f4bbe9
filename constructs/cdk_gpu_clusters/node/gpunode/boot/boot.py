"""Passes the stages of a boot, and completes the launch: CONTINUE if all hold, ABANDON if one cannot."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from .. import paths
from ..events import Events
from ..lifecycle import complete_hook, keep_for_inspection, replace_failed_launch, restart_hook
from ..node import Node
from ..quoting import one_line
from .stage import Stage, State, pass_stage

_READY, _FAILED = 0, 1
# The launch must still be completed after the stages used up all their time.
_HOOK_MARGIN_SECONDS = 300


def boot(
    node: Node,
    events: Events,
    stages: Callable[[Node], Iterable[Stage]],
    *,
    report: Callable[[], None],
    collect: Callable[[str], None],
) -> int:
    """Pass the stages, in their order.

    CompleteLifecycleAction takes no reason, so the reason goes first to `boot.json`, the journal, the serial console
    and AWS, with the evidence. A reboot checks again and completes nothing.

    Args:
        report: Sends the events to AWS.
        collect: Stores the evidence of a failure, given its reason, outside the node.

    Returns:
        Exit status: 0 for a node that is ready, 1 for one that is not.
    """
    launch = _Launch(node, events)
    events.write("node", "started")
    launch.restart_after_reboot()
    _write_result(node, events, "starting", "", first_boot=launch.is_first)
    until = node.settings.number("boot_deadline", 900)
    reason, fix = first_failure(node, events, stages, until)
    state = "failed" if reason else "ready"
    events.write("node", state, reason, seconds=paths.uptime_seconds(), **({"fix": fix} if fix else {}))
    _write_result(node, events, state, reason, first_boot=launch.is_first, fix=fix)
    if reason:
        _write_console(node, f"{reason}: {fix}" if fix else reason)
        collect(reason)
        report()
        if launch.is_first:
            keep_for_inspection(node, events, report)
        launch.complete("ABANDON", max(until, paths.uptime_seconds()))
        if launch.is_first:
            replace_failed_launch(node, events, report)
    else:
        launch.complete("CONTINUE", until)
        report()
    _write_result(node, events, state, reason, first_boot=launch.is_first, fix=fix)
    return _FAILED if reason else _READY


def first_failure(
    node: Node, events: Events, stages: Callable[[Node], Iterable[Stage]], until: float
) -> tuple[str, str]:
    """Why the node is not ready, and what to do about it; empty if all stages hold."""
    if not node.instance_id:
        return "the instance metadata service does not return the id of this instance", "is it enabled, for IMDSv2?"
    try:
        for stage in stages(node):
            verdict = pass_stage(stage, node, events, until_uptime_seconds=until)
            if verdict.state is State.FAILED:
                return f"{stage.name}: {verdict.reason}", verdict.fix
    except Exception as fault:  # noqa: BLE001 - a node fails with a reason, never without one
        return f"gpunode boot stopped unexpectedly: {type(fault).__name__}: {fault}", ""
    return "", ""


class _Launch:
    """The launching hook, completed once in the life of the instance.

    Attributes:
        is_first: Whether this is the boot of the launch.
    """

    def __init__(self, node: Node, events: Events) -> None:
        self._node, self._events = node, events
        self._marker = paths.state_folder() / f"launched-{node.instance_id}"
        self.is_first = not self._marker.exists()

    def restart_after_reboot(self) -> None:
        """Restart the hook's time-out if `gpu-mig` rebooted this node during its launch."""
        rebooted = paths.state_folder() / "rebooted"
        hook = self._node.settings.text("launch_hook")
        if not rebooted.exists():
            return
        if self.is_first and self._node.instance_id and hook:
            restart_hook(self._node, self._events, hook)
        with suppress(OSError):
            rebooted.unlink()

    def complete(self, result: str, until_uptime_seconds: float) -> None:
        """Complete it, if this is the first boot and there is a hook."""
        if not self.is_first or not self._node.instance_id:
            return
        hook = self._node.settings.text("launch_hook")
        until = until_uptime_seconds + _HOOK_MARGIN_SECONDS
        if not hook or complete_hook(
            self._node, self._events, hook, result, phase="Pending", until_uptime_seconds=until
        ):
            with suppress(OSError):  # a later boot then finds nothing to complete
                self._marker.touch()


def _write_console(node: Node, words: str) -> None:
    try:
        console = paths.below("/dev/console")
        console.write_text(f"gpu-node-boot: {node.instance_id} failed: {one_line(words)}\n", encoding="utf-8")
    except OSError as fault:
        sys.stderr.write(f"no console: {fault}\n")


def _write_result(node: Node, events: Events, state: str, reason: str, *, first_boot: bool, fix: str = "") -> None:
    """Write the result, for people and for later checks."""
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
    # Also in memory: a full disk must not hide from the watchdog that the boot failed.
    for folder in (paths.run_folder, paths.state_folder):
        _keep(folder, json.dumps(result) + "\n")


def _keep(folder: Callable[[], Path], text: str) -> None:
    try:
        paths.write_atomically(folder() / "boot.json", text)
    except OSError as fault:
        sys.stderr.write(f"boot.json cannot be written: {fault}\n")
