"""Assembles the watchdog of this node from its settings."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping

from ..actions.auto_scaling import AutoScaling
from ..actions.batch import Batch
from ..actions.hyperpod import HyperPodKubernetes, HyperPodSlurm
from ..actions.kubernetes import Kubernetes
from ..actions.orchestrator import Orchestrator
from ..actions.slurm import Slurm
from ..boot.stage import Stage
from ..boot.stages import stages_of
from ..checks.check import Check, Severity
from ..events import Events
from ..health import assess, late_seconds, serve_health
from ..node import Node
from ..repair.history import History
from ..repair.limit import SILENCE_SECONDS, Silence
from ..repair.steps import Steps
from ..reporting import keep_evidence
from ..shipping import ship
from ..slots import Slots
from ..state import latest, recall
from .kernel import Hardware, KernelLog, read_xids
from .mode import Mode, memory_of
from .probes import is_launch_abandoned, probes_of
from .response import GRACE_SECONDS, Response
from .watch import PATIENCE_SECONDS, Rounds, Watch, notify, watchdog_seconds

_ORCHESTRATORS: Mapping[str, Callable[[Node], Orchestrator]] = {
    "ec2": AutoScaling,
    "eks": Kubernetes,
    "slurm": Slurm,
    "pcs": Slurm,
    "batch": Batch,
    "hyperpod-eks": HyperPodKubernetes,
    "hyperpod-slurm": HyperPodSlurm,
}
_INTERVAL_SECONDS = 10
# A lost node costs minutes to hours of its capacity, and a Capacity Block may have no other. A reboot costs minutes.
_LIMITS = {
    Severity.RESET: ("resets_per_hour", 20),
    Severity.REBOOT: ("reboots_per_hour", 10),
    Severity.REPLACE: ("watch_actions_per_hour", 2),
}


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
    stages: Callable[[Node], Iterable[Stage]] = stages_of,
    chance: Callable[[], float] = random.random,
) -> Watch:
    """The watchdog of a node.

    Args:
        stages: The boot checks, which a repair repeats.
        chance: A random number of 0 to 1, for pauses.
        patience_seconds: How long a poll waits for what it started.
    """
    settings, memory = node.settings, memory_of(mode)
    log = KernelLog(after=_last_sequence(memory), from_end=settings.text("kernel_log_from") == "end")
    return Watch(
        events=events,
        log=log,
        xids=read_xids(),
        hardware=Hardware(settings.text("accelerator")),
        rounds=Rounds(probes_of(node, checks, clock), clock=clock, patience_seconds=patience_seconds),
        response=_response(node, events, mode, stages=stages, clock=clock, chance=chance),
        acts_from=_acts_from(settings.text("watch_acts_from")),
        after_action=lambda: ship(node),
        memory=memory,
        clock=clock,
        patience_seconds=patience_seconds,
    )


def orchestrator_of(node: Node) -> Orchestrator | None:
    """The orchestrator that GPU_ORCHESTRATOR names, such as `ec2` or `pcs`; None if it names none."""
    make = _ORCHESTRATORS.get(node.settings.text("orchestrator").lower())
    return make(node) if make else None


def _response(
    node: Node,
    events: Events,
    mode: Mode,
    *,
    stages: Callable[[Node], Iterable[Stage]],
    clock: Callable[[], float],
    chance: Callable[[], float],
) -> Response | None:
    orchestrator, settings = orchestrator_of(node), node.settings
    if orchestrator is None:
        return None
    silence_seconds = settings.number("silence_seconds", SILENCE_SECONDS)
    return Response(
        orchestrator,
        keep_evidence=lambda reason: keep_evidence(node, reason),
        history=History(node.instance_id),
        steps=Steps(node, events, orchestrator, stages=stages),
        limits={severity: settings.number(*limit) for severity, limit in _LIMITS.items()},
        dry_run=mode is Mode.DRY_RUN,
        slots=Slots(node),
        silence=Silence(silence_seconds=silence_seconds, clock=clock, chance=chance),
        grace_seconds=settings.number("repair_wait_seconds", GRACE_SECONDS),
        chance=chance,
    )


def _acts_from(name: str) -> Severity:
    severities = {severity.name.lower(): severity for severity in (Severity.RESET, Severity.REBOOT, Severity.REPLACE)}
    return severities.get(name.lower(), Severity.RESET)


def _last_sequence(memory: str) -> int:
    try:
        return int(recall(memory).get("sequence", -1))
    except (TypeError, ValueError):
        return -1
