"""The command `gpunode`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from .boot.boot import boot
from .boot.stages import stages_of
from .events import Events
from .node import this_node


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        Exit status; each command says what its own means.
    """
    parser = argparse.ArgumentParser(prog="gpunode", description="Software of a GPU cluster node.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("boot", help="check this boot stage by stage, then complete the launch")
    given = parser.parse_args(arguments)
    return _COMMANDS[given.command](given)


def _boot(_: argparse.Namespace) -> int:
    node = this_node()
    events = Events(node.instance_id)
    return boot(node, events, stages_of(node), tell=lambda: None, collect=lambda _: None)


_COMMANDS = {"boot": _boot}
