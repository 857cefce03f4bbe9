"""A list of peers in the form that a launcher wants."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .peers import NoPeersError, Peer

#: Formats by the names of `gpunode peers --format`.
FORMATS = ("plain", "mpirun", "torchrun", "imex", "json")
#: Formats that say something about ranks, or that must be the same file on all nodes.
SAME_ON_ALL = ("torchrun", "imex", "rdzv")


def as_text(peers: Sequence[Peer], form: str, *, own_id: str, slots: int, port: int) -> str:
    """The list as text without a last newline.

    Args:
        peers: The nodes, the first of them rank 0.
        form: One of `FORMATS`, or `rdzv` for the endpoint of a rendezvous.
        own_id: Instance of this node.
        slots: Processes of a node.
        port: Port of the first node.

    Raises:
        NoPeersError: If this node needs a rank and is not among them.
    """
    first = peers[0].private_ip
    if form == "mpirun":
        return "\n".join(f"{peer.private_ip} slots={slots}" for peer in peers)
    if form == "rdzv":
        return f"{first}:{port}"
    if form == "torchrun":
        ranks = [peer.instance_id for peer in peers]
        if own_id not in ranks:
            raise NoPeersError(f"this node ({own_id}) is not in service, so it has no rank")
        return "\n".join(
            [
                f"MASTER_ADDR={first}",
                f"MASTER_PORT={port}",
                f"NNODES={len(peers)}",
                f"NODE_RANK={ranks.index(own_id)}",
                f"NPROC_PER_NODE={slots}",
            ]
        )
    if form == "json":
        return json.dumps([_as_row(peer, own_id) for peer in peers])
    return "\n".join(peer.private_ip for peer in peers)


def _as_row(peer: Peer, own_id: str) -> dict[str, object]:
    return {
        "private_ip": peer.private_ip,
        "instance_id": peer.instance_id,
        "own": peer.instance_id == own_id,
        "network_nodes": list(peer.network_nodes),
    }
