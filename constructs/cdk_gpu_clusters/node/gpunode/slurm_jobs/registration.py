"""`gpunode registered`: record what the controller knows of this node, once slurmd has registered."""

from __future__ import annotations

import argparse
import os
from typing import Any

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
    events = Events(node.instance_id)
    try:
        name = Slurm(node).name
    except ActionError as fault:
        events.write("slurm", "failed", str(fault))
        return os.EX_TEMPFAIL
    shown = (SlurmCommands(node.settings).nodes(name) or [{}])[0]
    reason = is_set(shown, "Reason")
    words = f"{name} is {is_set(shown, 'State') or 'unknown'} with {is_set(shown, 'Gres') or 'no GRES'}"
    events.write("slurm", "ok", f"{words}: {reason}" if reason else words)
    event_reporter(node, events)()
    return 0
