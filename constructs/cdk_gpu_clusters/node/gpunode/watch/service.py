"""Puts the watchdog of this node together, as its settings say."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from .. import evidence, paths
from ..actions.choice import orchestrator_of
from ..actions.orchestrator import Orchestrator
from ..checks.check import Check, Severity
from ..events import Events
from ..node import Node
from ..shipping import ship
from ..xids import read_xids
from .conditions import looks_at
from .disk import look_at_disk
from .efa_counters import EfaCounters
from .kernel_log import KernelLog
from .look import Look
from .memory import recall
from .response import Response
from .rounds import PATIENCE_SECONDS, Rounds
from .tools import look_at_nvidia_smi
from .watch import Watch

_INTERVAL_SECONDS = 10
_LIMIT_PER_HOUR = 2


def watch(node: Node, events: Events, checks: Mapping[str, Check]) -> int:
    """Watch this node for ever.

    Args:
        node: This node.
        events: Where it is told.
        checks: Its checks by name.

    Returns:
        Exit status; it does not come back by itself.
    """
    make_watch(node, events, checks).run(max(1, node.settings.number("watch_interval", _INTERVAL_SECONDS)))
    return 0


def make_watch(
    node: Node,
    events: Events,
    checks: Mapping[str, Check],
    *,
    clock: Callable[[], float] = time.monotonic,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Watch:
    """The watchdog of a node.

    Args:
        node: The node.
        events: Where it is told.
        checks: Its checks by name.
        clock: Seconds that never go back.
        patience_seconds: How long a poll waits for what it began.
    """
    settings = node.settings
    log = KernelLog(after=_last_sequence(), from_end=settings.text("kernel_log_from") == "end")
    return Watch(
        events=events,
        log=log,
        xids=read_xids(),
        rounds=Rounds(looks_of(node, checks, clock), clock=clock, patience_seconds=patience_seconds),
        response=_response(node, orchestrator_of(node)),
        acts_from=_acts_from(settings.text("watch_acts_from")),
        after_action=lambda: ship(node, "events", stream=node.instance_id),
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
    looks = [Look("disk", look_at_disk, every=6), *looks_at(node, checks)]
    if node.settings.text("accelerator") == "gpu":
        looks.append(Look("nvidia-smi", look_at_nvidia_smi))
    if node.settings.number("efa_count"):
        looks.append(Look("efa-counters", EfaCounters(clock).look))
    return looks


def _response(node: Node, orchestrator: Orchestrator | None) -> Response | None:
    if orchestrator is None:
        return None
    return Response(
        orchestrator,
        keep_evidence=lambda reason: keep_evidence(node, reason),
        limit_per_hour=node.settings.number("watch_actions_per_hour", _LIMIT_PER_HOUR),
        dry_run=bool(node.settings.number("watch_dry_run")),
    )


def keep_evidence(node: Node, reason: str) -> str:
    """Collect a bundle, in memory where the disk takes none, and copy it to S3.

    Args:
        node: This node.
        reason: Why.

    Returns:
        Where it is; empty where the fleet has no place for it.

    Raises:
        AwsError: If S3 does not take it.
    """
    try:
        bundle = evidence.collect(node, reason)
    except OSError:
        bundle = evidence.collect(node, reason, folder=paths.run_folder())
    return evidence.keep(node, bundle)


def _acts_from(word: str) -> Severity:
    known = {
        severity.name.lower(): severity for severity in (Severity.RESET, Severity.REBOOT, Severity.REPLACE)
    }
    return known.get(word.lower(), Severity.REBOOT)


def _last_sequence() -> int:
    try:
        return int(recall().get("sequence", -1))
    except (TypeError, ValueError):
        return -1
