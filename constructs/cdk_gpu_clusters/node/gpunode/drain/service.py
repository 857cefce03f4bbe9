"""Waits for the end of a node, and prepares it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

from .. import jobs, paths
from ..actions.mark import mark_ending
from ..actions.orchestrator import Orchestrator
from ..background import Background
from ..ending import announce
from ..events import Events
from ..lifecycle import complete_hook
from ..node import Node
from .endings import Ending, Endings
from .on_drain import run_on_drain
from .work import end_work

_POLL_SECONDS = 5
_HOOK_SECONDS = 300
# An orchestrator that does not answer must not take the time of the user's command.
_MARK_SECONDS = 5
# With the 90 s of `on-drain` by default, all fits into the two minutes of a Spot notice.
_WORK_SECONDS = 15
_LEAST_SECONDS = 5.0


def watch_for_end(
    node: Node, events: Events, *, orchestrator: Orchestrator | None, tell: Callable[[], None]
) -> int:
    """Wait for the end, drain the node once, and complete the terminating hook.

    Args:
        node: This node.
        events: Where it is told.
        orchestrator: Who gives work to the node; None: nobody does.
        tell: Carries the events to AWS; may raise.

    Returns:
        Exit status 0, once nothing is left to do.
    """
    endings, hinted = Endings(node), ""
    ends_on_hint = node.settings.text("rebalance").lower() == "drain"
    drained = _is_drained()
    _try(jobs.make_folder)
    while True:
        hint = endings.hint()
        if hint and hint != hinted:
            events.write("drain", "hint", hint)
            hinted = hint
        ending = endings.look() or (Ending(hint) if hint and ends_on_hint else None)
        if ending is not None and not drained:
            drain(node, events, ending, orchestrator)
            drained = True
            _try(tell)
        # A Spot notice may be followed by the group's own termination, whose hook is still to be completed.
        if ending is not None and ending.is_termination:
            hook = node.settings.text("terminate_hook")
            if hook:
                until = paths.uptime_seconds() + _HOOK_SECONDS
                complete_hook(node, events, hook, "CONTINUE", phase="Terminating", until_uptime_seconds=until)
            return 0
        time.sleep(_POLL_SECONDS)


def drain(node: Node, events: Events, ending: Ending, orchestrator: Orchestrator | None) -> None:
    """Prepare the end: the orchestrator is told, the user's command runs, and then the jobs get SIGTERM.

    Args:
        node: This node.
        events: Where it is told.
        ending: Why it ends.
        orchestrator: Who gives work to the node; None: nobody does.
    """
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
    """What the settings say, or what the end leaves beside the jobs."""
    wanted = float(node.settings.number("drain_deadline", 90))
    # The hook waits no longer for jobs that get more than the usual.
    allowed = wanted - max(0.0, work_seconds - _WORK_SECONDS)
    if ending.seconds_left is not None:
        allowed = min(allowed, ending.seconds_left - work_seconds - _MARK_SECONDS)
    return max(allowed, min(wanted, _LEAST_SECONDS))


def _remember() -> None:
    """For a later process of this boot."""
    (paths.run_folder() / "drained").touch()


def _is_drained() -> bool:
    return paths.below("/run/gpu-cluster/drained").exists()


def _try(step: Callable[[], object]) -> None:
    """A step that fails holds back none of the others."""
    try:
        step()
    except Exception as fault:  # noqa: BLE001 - whatever it was, the node ends all the same
        sys.stderr.write(f"{type(fault).__name__}: {fault}\n")
