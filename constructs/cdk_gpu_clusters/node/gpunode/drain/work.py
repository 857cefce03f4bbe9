"""Ends the work on a node that is about to end: SIGTERM to its jobs, by whoever runs them."""

from __future__ import annotations

import time

from .. import jobs
from ..actions.orchestrator import Orchestrator
from ..command import run
from ..events import Events
from ..node import Node


def end_work(node: Node, events: Events, orchestrator: Orchestrator | None, seconds: float) -> None:
    """Send SIGTERM to all jobs, and wait for those that `gpunode run` started.

    These are the jobs of the orchestrator, the units in GPU_JOB_UNITS, and the jobs of `gpunode run`. None of them
    holds the node back. The orchestrator does not say when its jobs have ended: they get all of the time.

    Args:
        node: This node.
        events: Where it is told.
        orchestrator: Who gives work to the node; None: nobody does.
        seconds: How long they have.
    """
    until = time.monotonic() + seconds
    asked = orchestrator is not None and _ask(orchestrator, events)
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
    if asked:
        time.sleep(max(0.0, until - time.monotonic()))


def _ask(orchestrator: Orchestrator, events: Events) -> bool:
    """Have the orchestrator's jobs end; says whether they may be at it."""
    try:
        said = orchestrator.end_work()
    except Exception as fault:  # noqa: BLE001 - the other jobs are told whatever happens here
        events.write("jobs", "failed", str(fault) or type(fault).__name__)
        return False
    if said:
        events.write("jobs", "ok", said)
    return bool(said)
