"""What the watchdog may do on this node, by its settings."""

from __future__ import annotations

from enum import Enum

from ..node import Node

MEMORY = "watch"


class Mode(Enum):
    """What the watchdog does; GPU_WATCH names it."""

    ON = "on"
    #: It only reports what it would do.
    DRY_RUN = "dry-run"
    OFF = "off"


def mode_of(node: Node) -> Mode:
    """The mode in the settings; ON for an unknown or missing one."""
    word = node.settings.text("watch").lower()
    return Mode(word) if word in [mode.value for mode in Mode] else Mode.ON


def memory_of(mode: Mode) -> str:
    """Name of the state that a watchdog remembers. A dry run has a state of its own, since it did nothing."""
    return MEMORY if mode is Mode.ON else f"{MEMORY}-{mode.value}"
