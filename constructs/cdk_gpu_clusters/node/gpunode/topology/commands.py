"""The commands of `gpunode` about topology."""

from __future__ import annotations

import argparse
from typing import Any

from .nccl_command import add_nccl_test
from .peers_command import add_peers
from .run_command import add_run


def add_topology_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Add them to the commands of `gpunode`."""
    for add in (add_peers, add_run, add_nccl_test):
        add(commands)
