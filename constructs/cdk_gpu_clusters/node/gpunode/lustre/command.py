"""The command `gpunode lustre-efa`, which the unit gpu-lustre runs before and after it mounts."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..settings import read_settings
from .efa_setup import EfaSetupError, set_up_efa
from .transport import Transport, measure, remember

# From the worst to the best.
_ORDER = (False, None, True)

_TEXT = """\
set-up gives Lustre's network the EFA devices of this node; do it before anything is mounted.
probe MOUNT_POINT ... writes 32 MiB to each, and tells whether they took EFA or TCP. What it finds stays for
`gpunode verify`, until the next boot.

Exit status: 0 it is EFA, 1 it is not, or cannot be told, with the reason.
"""


def add_lustre_efa(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of `gpunode`."""
    command = commands.add_parser(
        "lustre-efa",
        help="Lustre over EFA: set it up, and tell whether it is used",
        description=_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = command.add_subparsers(required=True, metavar="STEP")
    steps.add_parser("set-up").set_defaults(run=_set_up)
    probe = steps.add_parser("probe")
    probe.add_argument("mount_points", nargs="+", metavar="MOUNT_POINT")
    probe.set_defaults(run=_probe)


def _set_up(_: argparse.Namespace) -> int:
    try:
        devices = set_up_efa(read_settings())
    except EfaSetupError as reason:
        remember(Transport(False, str(reason)))
        sys.stdout.write(f"{reason}\n")
        return 1
    sys.stdout.write(f"{len(devices)} EFA interfaces\n")
    return 0


def _probe(given: argparse.Namespace) -> int:
    seen = [measure(point) for point in given.mount_points]
    worst = min(seen, key=lambda one: _ORDER.index(one.is_efa))
    remember(worst)
    sys.stdout.write(f"{worst.words}\n")
    return 0 if worst.is_efa else 1
