"""Puts the watchdog of this node together, as its settings say."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum

from .. import evidence, paths
from ..actions.choice import orchestrator_of
from ..actions.orchestrator import Orchestrator
from ..checks.check import Check, Severity
from ..events import Events
from ..node import Node
from ..notify import notify, watchdog_seconds
from ..shipping import ship
from ..xids import read_xids
from .conditions import looks_at
from .disk import look_at_disk
from .efa_counters import EfaCounters
from .failed_boot import is_launch_given_up, look_at_boot
from .kernel_log import KernelLog
from .look import Look
from .lustre_health import look_at_lustre_client
from .memory import recall
from .places import Places
from .response import Response
from .rounds import PATIENCE_SECONDS, Rounds
from .tools import look_at_nvidia_smi
from .watch import MEMORY, Watch

_INTERVAL_SECONDS = 10
_LIMIT_PER_HOUR = 2


class Mode(Enum):
    """What the watchdog does; GPU_WATCH names it."""

    ON = "on"
    #: It only says what it would do.
    DRY_RUN = "dry-run"
    OFF = "off"


def mode_of(node: Node) -> Mode:
    """What the settings want; a word that is none of them changes nothing."""
    word = node.settings.text("watch").lower()
    return Mode(word) if word in [mode.value for mode in Mode] else Mode.ON


def memory_of(mode: Mode) -> str:
    """Name of what a watchdog remembers; what a dry run would have done is not done."""
    return MEMORY if mode is Mode.ON else f"{MEMORY}-{mode.value}"


def watch(node: Node, events: Events, checks: Mapping[str, Check], mode: Mode) -> int:
    """Watch this node for ever, unless it is off.

    Args:
        node: This node.
        events: Where it is told.
        checks: Its checks by name.
        mode: What is done.

    Returns:
        Exit status.
    """
    if mode is Mode.OFF:
        notify("READY=1", "STATUS=off")
        events.write("watch", "skipped", "GPU_WATCH=off")
        return 0
    if is_launch_given_up():
        notify("READY=1", "STATUS=the launch failed")
        events.write("watch", "skipped", "the boot of the launch failed, and gave the launch up")
        return 0
    make_watch(node, events, checks, mode=mode).run(interval_seconds(node))
    return 0


def interval_seconds(node: Node) -> float:
    """Time from one poll to the next; short enough for systemd, which hears of each."""
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
        node: The node.
        events: Where it is told.
        checks: Its checks by name.
        mode: What is done.
        clock: Seconds that never go back.
        patience_seconds: How long a poll waits for what it began.
    """
    settings, memory = node.settings, memory_of(mode)
    log = KernelLog(after=_last_sequence(memory), from_end=settings.text("kernel_log_from") == "end")
    return Watch(
        events=events,
        log=log,
        xids=read_xids(),
        rounds=Rounds(looks_of(node, checks, clock), clock=clock, patience_seconds=patience_seconds),
        response=_response(node, orchestrator_of(node), mode),
        acts_from=_acts_from(settings.text("watch_acts_from")),
        after_action=lambda: ship(node),
        memory=memory,
        clock=clock,
        patience_seconds=patience_seconds,
    )


def looks_of(
    node: Node, checks: Mapping[str, Check], clock: Callable[[], float] = time.monotonic
) -> list[Look]:
    """What is looked at on a node.

    Args:
        node: The node.
        checks: Its checks by name.
        clock: Seconds that never go back.
    """
    looks = [Look("boot", look_at_boot), Look("disk", look_at_disk, every=6), *looks_at(node, checks)]
    if node.settings.text("accelerator") == "gpu":
        looks.append(Look("nvidia-smi", look_at_nvidia_smi))
    if node.settings.number("efa_count"):
        looks.append(Look("efa-counters", EfaCounters(clock).look))
    if node.settings.number("mounts"):
        looks.append(Look("lustre-client", look_at_lustre_client))
    return looks


def _response(node: Node, orchestrator: Orchestrator | None, mode: Mode) -> Response | None:
    if orchestrator is None:
        return None
    return Response(
        orchestrator,
        keep_evidence=lambda reason: keep_evidence(node, reason),
        limit_per_hour=node.settings.number("watch_actions_per_hour", _LIMIT_PER_HOUR),
        dry_run=mode is Mode.DRY_RUN,
        take_place=Places(node).take,
    )


def keep_evidence(node: Node, reason: str) -> str:
    """Collect a bundle in memory, since the disk may take nothing or hang, and copy it to S3.

    Args:
        node: This node.
        reason: Why.

    Returns:
        Where it is; empty where the fleet has no place for it.

    Raises:
        AwsError: If S3 does not take it.
        OSError: If even memory takes nothing.
    """
    return evidence.keep(node, evidence.collect(node, reason, folder=paths.run_folder()))


def _acts_from(word: str) -> Severity:
    known = {
        severity.name.lower(): severity for severity in (Severity.RESET, Severity.REBOOT, Severity.REPLACE)
    }
    return known.get(word.lower(), Severity.REBOOT)


def _last_sequence(memory: str) -> int:
    try:
        return int(recall(memory).get("sequence", -1))
    except (TypeError, ValueError):
        return -1
