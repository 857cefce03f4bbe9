"""Assembles the watchdog of this node from its settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ..actions.auto_scaling import AutoScaling
from ..actions.kubernetes import Kubernetes
from ..actions.orchestrator import Orchestrator
from ..actions.slurm import Slurm
from ..checks.check import Check, Severity
from ..events import Events
from ..health import assess, late_seconds, serve_health
from ..node import Node
from ..reporting import keep_evidence
from ..shipping import ship
from ..state import latest, recall
from .kernel import KernelLog, read_xids
from .mode import Mode, memory_of
from .probes import is_launch_abandoned, probes_of
from .response import Response, TakeOutSlots
from .watch import PATIENCE_SECONDS, Rounds, Watch, notify, watchdog_seconds

_ORCHESTRATORS: Mapping[str, Callable[[Node], Orchestrator]] = {
    "ec2": AutoScaling,
    "eks": Kubernetes,
    "slurm": Slurm,
    "pcs": Slurm,
}
_INTERVAL_SECONDS = 10
_LIMIT_PER_HOUR = 2


def watch(node: Node, events: Events, checks: Mapping[str, Check], mode: Mode) -> int:
    """Watch this node until the process ends, unless the watchdog is off.

    Returns:
        Exit status.
    """
    if mode is Mode.OFF:
        notify("READY=1", "STATUS=off")
        events.write("watch", "skipped", "GPU_WATCH=off")
        return 0
    if is_launch_abandoned():
        notify("READY=1", "STATUS=the launch failed")
        events.write("watch", "skipped", "the boot of the launch failed, and the launch was abandoned")
        return 0
    watching, interval = make_watch(node, events, checks, mode=mode), interval_seconds(node)
    acts_from, dry_run = _acts_from(node.settings.text("watch_acts_from")), mode is Mode.DRY_RUN
    late, memory = late_seconds(interval), memory_of(mode)
    serve_health(node, lambda: assess(latest(memory), acts_from=acts_from, dry_run=dry_run, late_seconds=late))
    watching.run(interval)
    return 0


def interval_seconds(node: Node) -> float:
    """Time from one poll to the next, short enough for systemd's watchdog, which every poll notifies."""
    wanted, patience = node.settings.number("watch_interval", _INTERVAL_SECONDS), watchdog_seconds()
    return max(1.0, min(wanted, patience / 2) if patience else wanted)


def make_watch(
    node: Node,
    events: Events,
    checks: Mapping[str, Check],
    *,
    mode: Mode = Mode.ON,
    clock: Callable[[], float] = time.monotonic,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Watch:
    """The watchdog of a node.

    Args:
        patience_seconds: How long a poll waits for what it started.
    """
    settings, memory = node.settings, memory_of(mode)
    log = KernelLog(after=_last_sequence(memory), from_end=settings.text("kernel_log_from") == "end")
    return Watch(
        events=events,
        log=log,
        xids=read_xids(),
        rounds=Rounds(probes_of(node, checks, clock), clock=clock, patience_seconds=patience_seconds),
        response=_response(node, orchestrator_of(node), mode),
        acts_from=_acts_from(settings.text("watch_acts_from")),
        after_action=lambda: ship(node),
        memory=memory,
        clock=clock,
        patience_seconds=patience_seconds,
    )


def orchestrator_of(node: Node) -> Orchestrator | None:
    """The orchestrator that GPU_ORCHESTRATOR names: `ec2`, `eks`, `slurm` or `pcs`; None if it names none."""
    make = _ORCHESTRATORS.get(node.settings.text("orchestrator").lower())
    return make(node) if make else None


def _response(node: Node, orchestrator: Orchestrator | None, mode: Mode) -> Response | None:
    if orchestrator is None:
        return None
    return Response(
        orchestrator,
        keep_evidence=lambda reason: keep_evidence(node, reason),
        limit_per_hour=node.settings.number("watch_actions_per_hour", _LIMIT_PER_HOUR),
        dry_run=mode is Mode.DRY_RUN,
        take_slot=TakeOutSlots(node).take,
    )


def _acts_from(name: str) -> Severity:
    severities = {severity.name.lower(): severity for severity in (Severity.RESET, Severity.REBOOT, Severity.REPLACE)}
    return severities.get(name.lower(), Severity.REBOOT)


def _last_sequence(memory: str) -> int:
    try:
        return int(recall(memory).get("sequence", -1))
    except (TypeError, ValueError):
        return -1
