"""A stage of the boot: a condition that must hold before the node accepts work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from .. import paths
from ..events import Events
from ..node import Node
from ..state import announced
from ..systemd import properties_of

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 10.0


class State(Enum):
    """The state of a stage."""

    OK = "ok"
    #: Not yet; it may still become OK.
    WAITING = "waiting"
    #: Never; waiting does not help.
    FAILED = "failed"


@dataclass(frozen=True)
class Verdict:
    """The result of a probe of a stage.

    Attributes:
        state: State of the stage.
        reason: Why, in a sentence.
        fix: What a person can do about it; empty if nothing is wrong.
    """

    state: State
    reason: str
    fix: str = ""

    @classmethod
    def ok(cls, reason: str) -> Verdict:
        """It holds."""
        return cls(State.OK, reason)

    @classmethod
    def waiting(cls, reason: str, fix: str = "") -> Verdict:
        """It does not hold yet."""
        return cls(State.WAITING, reason, fix)

    @classmethod
    def failed(cls, reason: str, fix: str = "") -> Verdict:
        """It cannot hold any more."""
        return cls(State.FAILED, reason, fix)


@dataclass(frozen=True)
class Stage:
    """One stage.

    Attributes:
        name: Its name in events and results.
        probe: Checks whether it holds; quick, and harmless when repeated.
        deadline_seconds: How long it may wait; None: as long as the boot.
    """

    name: str
    probe: Callable[[Node], Verdict]
    deadline_seconds: float | None = None


def pass_stage(stage: Stage, node: Node, events: Events, *, until_uptime_seconds: float) -> Verdict:
    """Probe a stage until it holds, cannot hold, or its time is up.

    Returns:
        The last verdict; `OK` or `FAILED`.
    """
    begin, pause, last = time.monotonic(), _FIRST_PAUSE_SECONDS, ""
    events.write(stage.name, "started")
    while True:
        verdict = _probe(stage, node)
        spent = time.monotonic() - begin
        late = paths.uptime_seconds() >= until_uptime_seconds
        late = late or (stage.deadline_seconds is not None and spent >= stage.deadline_seconds)
        if verdict.state is State.WAITING and late:
            verdict = Verdict.failed(verdict.reason, verdict.fix)
        if verdict.state is not State.WAITING:
            events.write(stage.name, verdict.state.value, verdict.reason, seconds=spent)
            return verdict
        if verdict.reason != last:
            events.write(stage.name, "waiting", verdict.reason, seconds=spent)
        last = verdict.reason
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _probe(stage: Stage, node: Node) -> Verdict:
    # A node that is about to end must neither be waited for nor get work.
    ending = announced()
    if ending:
        return Verdict.failed(f"this instance is about to end: {ending}")
    try:
        return stage.probe(node)
    except Exception as fault:  # noqa: BLE001 - a broken check fails its node with a reason, never without one
        return Verdict.waiting(f"the check itself failed: {type(fault).__name__}: {fault}")


_RUNTIMES = ("docker", "containerd")


def probe_containers(_: Node) -> Verdict:
    """Whether a container runtime runs if the image starts one."""
    for name in _RUNTIMES:
        shown = properties_of(name)
        if shown.get("LoadState") == "loaded" and shown.get("UnitFileState") == "enabled":
            return _running(name, shown)
    return Verdict.ok("the image starts none")


def _running(name: str, shown: dict[str, str]) -> Verdict:
    state = shown.get("ActiveState", "unknown")
    if state == "active":
        return Verdict.ok(f"{name} runs")
    if state == "failed":
        return Verdict.failed(f"{name} has failed", f"journalctl -u {name}")
    return Verdict.waiting(f"{name} is {state}", f"journalctl -u {name}")
