"""What a node says and keeps of itself before it may go: its events to AWS, and its evidence."""

from __future__ import annotations

import time
from collections.abc import Callable

from .events import Events
from .node import Node
from .shipping import ship
from .watch.service import keep_evidence

# The policy that allows a call may be attached after the boot, and the node is gone soon.
_PAUSES_SECONDS = (1, 2, 4, 8)


def teller(node: Node, events: Events) -> Callable[[], None]:
    """What carries the events to AWS at once; they stay spooled if it cannot, and the journal has them anyway.

    Args:
        node: This node.
        events: Where a failure is told.
    """

    def tell() -> None:
        fault = _repeat(lambda: ship(node))
        if fault:
            events.write("log", "failed", f"{node.settings.text('log_group')}: {fault}")

    return tell


def collector(node: Node, events: Events) -> Callable[[str], None]:
    """What collects the evidence of a failure, given its reason, and copies it to the fleet's bucket.

    Args:
        node: This node.
        events: Where it is told.
    """

    def collect(reason: str) -> None:
        addresses: list[str] = []
        fault = _repeat(lambda: addresses.append(keep_evidence(node, reason)))
        if fault:
            events.write("evidence", "failed", fault)
        elif addresses[-1]:
            events.write("evidence", "ok", addresses[-1])
        else:
            events.write("evidence", "skipped", "the fleet has no bucket for it: it stays on the node")

    return collect


def _repeat(action: Callable[[], object]) -> str:
    """Try a few times; why it failed, empty if it did not."""
    fault = _fault_of(action)
    for pause in _PAUSES_SECONDS:
        if not fault:
            break
        time.sleep(pause)
        fault = _fault_of(action)
    return fault


def _fault_of(action: Callable[[], object]) -> str:
    try:
        action()
    except Exception as fault:  # noqa: BLE001 - whatever it is, the launch is still to be completed
        return str(fault) or type(fault).__name__
    return ""
