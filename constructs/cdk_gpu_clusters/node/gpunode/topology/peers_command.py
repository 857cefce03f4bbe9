"""The command `gpunode peers`, also called `gpu-peers`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .. import paths
from ..node import Node, this_node
from .peer_formats import FORMATS, SAME_ON_ALL, as_text
from .peers import NoPeersError, NotYetError, Peer, wait_for_peers

# sysexits.h
_MISUSE, _UNAVAILABLE, _NOT_NOW = 64, 69, 75
_HOSTS = "/etc/gpu-cluster/hosts"

_TEXT = """\
The nodes in service in this node's Auto Scaling group. Nodes that are near each other in EC2's network stand beside
each other, and all nodes agree on the order, so that the first is rank 0 for all. Where EC2 does not tell the network,
the order is that of the private addresses, and a warning says so.

  mpirun --hostfile <(gpu-peers --format mpirun) ...
  eval "$(gpu-peers --format torchrun)"      sets MASTER_ADDR MASTER_PORT NNODES NODE_RANK NPROC_PER_NODE
  torchrun --rdzv-endpoint "$(gpu-peers --rdzv-endpoint)" ...
  gpu-peers --format imex --output /etc/nvidia-imex/nodes_config.cfg && systemctl restart nvidia-imex

Exit status: 64 a wrong command line, 69 this node has no peers or no rank, 75 not yet: too few nodes, or no answer.
"""


def add_peers(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of `gpunode`."""
    command = commands.add_parser(
        "peers",
        help="list the fleet's nodes that are in service, for launchers",
        description=_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    add("--format", choices=FORMATS, help="plain addresses if left out")
    add("--rdzv-endpoint", action="store_true", help="address and port of the first node, no list")
    add("--order", choices=("network", "address"), default="network", help="network if left out")
    add("--own-first", action="store_true", help="this node first, for a list of one launcher")
    add("--slots", type=_number, metavar="N", help="processes of a node; as the fleet has it if left out")
    add("--port", type=_number, default=29500, metavar="P", help="port of the first node, 29500 if left out")
    add("--wait", type=_number, default=0, metavar="N", help="until N nodes are in service")
    add("--timeout", type=_number, default=600, metavar="SECONDS", help="of --wait, 600 if left out")
    add("--write", action="store_true", help=f"to {_HOSTS}, as mpirun if no format is given")
    add("--output", metavar="FILE", help="to a file, which is replaced in one step")
    command.set_defaults(run=peers)


def peers(given: argparse.Namespace) -> int:
    """Print or write the list.

    Returns:
        Exit status.
    """
    form = "rdzv" if given.rdzv_endpoint else given.format or ("mpirun" if given.write else "plain")
    if given.own_first and form in SAME_ON_ALL:
        return _fail(f"--own-first breaks {form}: all nodes must see the same order", _MISUSE)
    node = this_node()
    try:
        found = wait_for_peers(
            node, given.wait, timeout_seconds=given.timeout, by_network=given.order == "network"
        )
        if found.warning:
            _tell(f"ordered by address, not by network: {found.warning}")
        text = as_text(
            _ordered(found.nodes, node, own_first=given.own_first),
            form,
            own_id=node.instance_id,
            slots=given.slots or node.settings.number("slots", 1),
            port=given.port,
        )
    except NoPeersError as reason:
        return _fail(str(reason), _UNAVAILABLE)
    except NotYetError as reason:
        return _fail(str(reason), _NOT_NOW)
    if given.write or given.output:
        _write(paths.below(_HOSTS) if given.write else Path(given.output), text)
    else:
        sys.stdout.write(text + "\n")
    return 0


def _ordered(nodes: list[Peer], node: Node, *, own_first: bool) -> list[Peer]:
    return sorted(nodes, key=lambda peer: peer.instance_id != node.instance_id) if own_first else nodes


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    paths.write_atomically(file, text + "\n")


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a number")
    return int(text)


def _tell(words: str) -> None:
    sys.stderr.write(f"gpu-peers: {words}\n")


def _fail(words: str, status: int) -> int:
    _tell(words)
    return status
