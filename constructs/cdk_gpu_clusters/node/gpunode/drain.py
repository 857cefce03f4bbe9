"""The end of a node: noticed, announced to its orchestrator, and prepared by the user's command and SIGTERM to jobs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from . import jobs, paths
from .actions.orchestrator import Orchestrator, moment_of
from .command import NOT_EXECUTABLE, NOT_FOUND, Background, run
from .events import Events
from .lifecycle import complete_hook
from .node import Node
from .state import announce

_POLL_SECONDS = 5
_HOOK_SECONDS = 300
# An orchestrator that does not answer must not use up the time of the user's command.
_MARK_SECONDS = 5
# With the default 90 s of `on-drain`, everything fits into the two minutes of a Spot notice.
_WORK_SECONDS = 15
_LEAST_SECONDS = 5.0


def watch_for_end(node: Node, events: Events, *, orchestrator: Orchestrator | None, report: Callable[[], None]) -> int:
    """Wait for the end, drain the node once, and complete the terminating hook.

    Args:
        orchestrator: What assigns work to the node; None if nothing does.
        report: Sends the events to AWS; may raise.

    Returns:
        Exit status 0, once the node is drained and its hook completed.
    """
    endings, hinted = Endings(node), ""
    ends_on_hint = node.settings.text("rebalance").lower() == "drain"
    drained = paths.below("/run/gpu-cluster/drained").exists()
    _try(jobs.make_folder)
    while True:
        hint = endings.hint()
        if hint and hint != hinted:
            events.write("drain", "hint", hint)
            hinted = hint
        ending = endings.find() or (Ending(hint) if hint and ends_on_hint else None)
        if ending is not None and not drained:
            drain(node, events, ending, orchestrator)
            drained = True
            _try(report)
        # A Spot notice may be followed by the group's own termination, whose hook must still be completed.
        if ending is not None and ending.is_termination:
            hook = node.settings.text("terminate_hook")
            if hook:
                _complete(node, events, hook, report)
            return 0
        time.sleep(_POLL_SECONDS)


def _complete(node: Node, events: Events, hook: str, report: Callable[[], None]) -> None:
    """Complete the terminating hook: otherwise the node is paid for until the hook's time-out.

    The instance ends before this does if the hook never begins. What holds it up is reported now and then.
    """
    while True:
        until = paths.uptime_seconds() + _HOOK_SECONDS
        if complete_hook(node, events, hook, "CONTINUE", phase="Terminating", until_uptime_seconds=until):
            return
        _try(report)


def drain(node: Node, events: Events, ending: Ending, orchestrator: Orchestrator | None) -> None:
    """Prepare the end: mark the node with its orchestrator, run the user's command, then send SIGTERM to the jobs."""
    _try(lambda: announce(ending.reason))
    marking: Background[None] = Background()
    mark = partial(mark_ending, orchestrator, events, ending.reason)
    _try(lambda: marking.start(mark, time.monotonic()))
    marking.take(_MARK_SECONDS)
    work_seconds = node.settings.number("job_seconds", _WORK_SECONDS)
    run_on_drain(events, ending.reason, _seconds_of_command(node, ending, work_seconds))
    end_work(node, events, orchestrator, work_seconds)
    _try(_remember)


def _seconds_of_command(node: Node, ending: Ending, work_seconds: float) -> float:
    """The deadline in the settings, or the time that the end leaves beside the jobs."""
    wanted = float(node.settings.number("drain_deadline", 90))
    # The hook does not wait longer for jobs with more time than the default.
    allowed = wanted - max(0.0, work_seconds - _WORK_SECONDS)
    if ending.seconds_left is not None:
        allowed = min(allowed, ending.seconds_left - work_seconds - _MARK_SECONDS)
    return max(allowed, min(wanted, _LEAST_SECONDS))


def _remember() -> None:
    """Record the drain for a later process of this boot."""
    (paths.run_folder() / "drained").touch()


def _try(step: Callable[[], object]) -> None:
    """Run a step that must not prevent the following ones."""
    try:
        step()
    except Exception as fault:  # noqa: BLE001 - the node ends in any case
        sys.stderr.write(f"{type(fault).__name__}: {fault}\n")


# Auto Scaling announces an end by `autoscaling/target-lifecycle-state` (EC2 Auto Scaling user guide, "Retrieve the
# target lifecycle state through instance metadata"), Spot by `spot/instance-action`, two minutes ahead (AWS EC2 user
# guide, "Spot Instance interruption notices"). The end of a Capacity Block reaches a node as a termination, once its
# group scales in. A fleet that knows the end also sets the time to drain in the node's settings.

TERMINATION = "autoscaling-termination"
SPOT = "spot-interruption"
BLOCK_END = "capacity-block-end"
REBALANCE = "rebalance-recommendation"
# A clock that is wrong for a moment must not end the node.
_CLOCK_SECONDS = 60


@dataclass(frozen=True)
class Ending:
    """Why this node ends.

    Attributes:
        reason: One of the constants above, and the time if it is known.
        is_termination: Whether its group already terminates it, and waits for its hook.
        seconds_left: How long it still has; None if unknown.
    """

    reason: str
    is_termination: bool = False
    seconds_left: float | None = None


class Endings:
    """Finds out whether this node is about to end."""

    def __init__(self, node: Node, clock: Callable[[], float] = time.monotonic) -> None:
        self._metadata, self._clock = node.metadata, clock
        self._drain_at = moment_of(node.settings.text("drain_at"))
        self._due_since: float | None = None

    def find(self) -> Ending | None:
        """Why it ends; None if nothing announces an end, or nothing answers."""
        if self._metadata.get("autoscaling/target-lifecycle-state") == "Terminated":
            return Ending(TERMINATION, is_termination=True)
        notice = self._metadata.get("spot/instance-action")
        if notice:
            return _spot(notice)
        return Ending(BLOCK_END) if self._is_due() else None

    def hint(self) -> str:
        """A rebalance recommendation: the Spot instance is at risk, but may stay."""
        notice = self._metadata.get("events/recommendations/rebalance")
        return f"{REBALANCE} {_text(notice, 'noticeTime')}".strip() if notice else ""

    def _is_due(self) -> bool:
        """Whether the time to drain has passed, by a clock that agrees for a while."""
        if self._drain_at is None or time.time() < self._drain_at:
            self._due_since = None
            return False
        self._due_since = self._clock() if self._due_since is None else self._due_since
        return self._clock() - self._due_since >= _CLOCK_SECONDS


def _spot(notice: str) -> Ending:
    text = _text(notice, "time")
    end = moment_of(text)
    left = None if end is None else end - time.time()
    # A time in the past, while the node still runs, means that the clock is wrong.
    return Ending(f"{SPOT} {text}".strip(), seconds_left=left if left and left > 0 else None)


def _text(notice: str, name: str) -> str:
    try:
        found: Any = json.loads(notice)
        return str(found.get(name) or "")
    except (ValueError, AttributeError):
        return ""


def run_on_drain(events: Events, reason: str, deadline_seconds: float) -> None:
    """Run the user's command `/etc/gpu-cluster/on-drain`, which saves what would be lost, with the reason as arguments.

    A failure or a delay does not hold the node back. GPU_DRAIN_SECONDS in the environment is its time limit, after
    which it gets SIGTERM.
    """
    command = paths.below("/etc/gpu-cluster/on-drain")
    if not os.access(command, os.X_OK):
        events.write("drain", "skipped", f"{reason}: no executable /etc/gpu-cluster/on-drain")
        return
    events.write("drain", "started", reason)
    begin, seconds = time.monotonic(), f"{deadline_seconds:.0f}"
    environment = {"GPU_DRAIN_SECONDS": seconds}
    outcome = run(str(command), *reason.split(), timeout_seconds=deadline_seconds, environment=environment)
    spent = time.monotonic() - begin
    if outcome.text:
        sys.stderr.write(outcome.text)
    if outcome.ok:
        words = reason
    elif outcome.hung:
        words = f"on-drain was still running after {seconds} s"
    elif outcome.status in (NOT_FOUND, NOT_EXECUTABLE):
        words = outcome.words
    else:
        words = f"on-drain exited with {outcome.status}"
    events.write("drain", "ok" if outcome.ok else "failed", words, seconds=spent)


def end_work(node: Node, events: Events, orchestrator: Orchestrator | None, seconds: float) -> None:
    """Send SIGTERM to all jobs, and wait for those that `gpunode run` started.

    These are the jobs of the orchestrator, the units in GPU_JOB_UNITS, and the jobs of `gpunode run`. None of them
    holds the node back. The orchestrator does not report the end of its jobs, so they get all of the time.

    Args:
        orchestrator: What assigns work to the node; None if nothing does.
    """
    until = time.monotonic() + seconds
    waits = orchestrator is not None and _end_jobs(orchestrator, events)
    units = node.settings.words("job_units")
    if units:
        outcome = run("systemctl", "stop", *units, timeout_seconds=seconds)
        state, words = ("ok", "stopped") if outcome.ok else ("failed", outcome.words)
        events.write("jobs", state, f"{' '.join(units)}: {words}")
    started = jobs.running()
    if started:
        left = jobs.end(started, max(0.0, until - time.monotonic()))
        words = f"{len(started) - len(left)} of {len(started)} jobs ended"
        events.write("jobs", "failed" if left else "ok", f"{words} within {seconds:g} s of SIGTERM")
    if waits:
        time.sleep(max(0.0, until - time.monotonic()))


def _end_jobs(orchestrator: Orchestrator, events: Events) -> bool:
    """End the orchestrator's jobs. Return whether any may still run."""
    try:
        done = orchestrator.end_work()
    except Exception as fault:  # noqa: BLE001 - the other jobs must still get SIGTERM
        events.write("jobs", "failed", str(fault) or type(fault).__name__)
        return False
    if done:
        events.write("jobs", "ok", done)
    return bool(done)


_MARK_TRIES = 3
_MARK_PAUSE_SECONDS = 2


def mark_ending(orchestrator: Orchestrator | None, events: Events, reason: str) -> None:
    """Keep new work away from a node that is about to end. After a few tries it is drained even without the mark."""
    if orchestrator is None:
        return
    for number in range(_MARK_TRIES):
        if number:
            time.sleep(_MARK_PAUSE_SECONDS)
        try:
            orchestrator.keep_new_work_away(reason)
        except Exception as fault:  # noqa: BLE001 - the drain goes on without the mark
            events.write("mark", "failed", str(fault) or type(fault).__name__)
        else:
            events.write("mark", "ok", reason)
            return
