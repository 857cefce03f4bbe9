"""`gpunode registered`: record what the controller knows of this node, once slurmd has registered.

A node that takes the place of another has its name, and with it the drain that this software left there, such as that
of a Spot interruption or of the end of a Capacity Block. It is resumed once, at its first boot.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from .. import paths
from ..actions.orchestrator import ActionError
from ..actions.slurm import Slurm
from ..events import Events
from ..node import this_node
from ..reporting import event_reporter
from .commands import SlurmCommands, is_set


def add_registered(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of `gpunode`."""
    command = commands.add_parser("registered", help="record the state of this node in Slurm")
    command.set_defaults(run=registered)


def registered(_: argparse.Namespace) -> int:
    """Write the event, and send it; returns the exit status."""
    node = this_node()
    events, slurm = Events(node.instance_id), Slurm(node)
    try:
        former = ""
        # AWS PCS user guide, "Configure node lifecycle actions": 1 on the node's first boot.
        if os.environ.get("PCS_IS_FIRST_BOOT") == "1":
            former = slurm.release_former(time.time() - paths.uptime_seconds())
        name = slurm.name
    except ActionError as fault:
        # sinfo lists the nodes of partitions: not one to log in on, nor one whose queue is still being made.
        name = slurm.own_name
        if not SlurmCommands(node.settings).nodes(name):
            events.write("slurm", "failed", str(fault))
            return os.EX_TEMPFAIL
    if former:
        events.write("slurm", "ok", f"{name} is resumed: an earlier instance left it with {former}")
    shown = (SlurmCommands(node.settings).nodes(name) or [{}])[0]
    reason = is_set(shown, "Reason")
    words = f"{name} is {is_set(shown, 'State') or 'unknown'} with {is_set(shown, 'Gres') or 'no GRES'}"
    events.write("slurm", "ok", f"{words}: {reason}" if reason else words)
    event_reporter(node, events)()
    return 0
