"""The nodes of a multi-node job of AWS Batch, as its containers find each other.

Batch gives each container its index and the number of nodes, and all but the main node the address of the main node
(AWS Batch user guide, "Environment variables" of multi-node parallel jobs). It starts the others when the main node
runs, in any order, and names their addresses to no one. So all of them connect to the main node, which sends everyone
the addresses when the last one has connected, and waits for each to confirm them. No key is needed: only members of
their security group, the default one of the VPC, reach the port, and each must name the attempt.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

#: Where the main node listens while they meet.
MEETING_PORT = 29499
_PAUSE_SECONDS = (0.5, 1.5)
_ANSWER_SECONDS = 10
#: Instances of Nitro v6 forget a connection that is idle for 350 seconds (EC2 API reference,
#: ConnectionTrackingConfiguration), and the first nodes wait for the images of the last.
_ALIVE_SECONDS = 60
_CONFIRMED = b'"confirmed"\n'
_LONGEST_LINE = 1 << 20
_PREFIX = "AWS_BATCH_JOB_"
_OWN = "127.0.0.1"


class NotMetError(Exception):
    """Not all nodes have connected in time; the text is the reason."""


@dataclass(frozen=True)
class BatchJob:
    """This node of a multi-node job.

    Attributes:
        attempt: What names this attempt of the job, the same on all of its nodes.
        rank: Rank of this node; that of the main node is 0.
        node_count: Nodes of the job.
        main_address: Private IPv4 address of the main node; empty on the main node.
        port: Where the main node listens.
    """

    attempt: str
    rank: int
    node_count: int
    main_address: str
    port: int = MEETING_PORT


def batch_job(environment: Mapping[str, str] = os.environ) -> BatchJob | None:
    """The job that the variables of this container name; None outside multi-node jobs of AWS Batch.

    Args:
        environment: Variables.

    Raises:
        NotMetError: If Batch's variables contradict each other.
    """
    values = {name[len(_PREFIX) :]: value for name, value in environment.items() if name.startswith(_PREFIX)}
    if "NUM_NODES" not in values:
        return None
    try:
        count, index = int(values["NUM_NODES"]), int(values["NODE_INDEX"])
        main = int(values.get("MAIN_NODE_INDEX", "0"))
        port = int(environment.get("GPU_PEERS_PORT") or MEETING_PORT)
    except (KeyError, ValueError) as fault:
        raise NotMetError(f"variables of AWS Batch: {fault}") from fault
    address = values.get("MAIN_NODE_PRIVATE_IPV4_ADDRESS", "")
    if not (0 <= index < count and 0 <= main < count) or (index != main and not address):
        raise NotMetError(
            f"variables of AWS Batch: node {index} of {count}, main node {main} {address or 'at no address'}"
        )
    # The id of a node is that of the job with `#` and its index.
    attempt = f"{values.get('ID', '').partition('#')[0]}/{values.get('ATTEMPT', '1')}"
    return BatchJob(attempt, (index - main) % count, count, "" if index == main else address, port)


def meet(job: BatchJob, *, timeout_seconds: float) -> list[str]:
    """Wait for all nodes of the job, and return their private addresses by rank.

    Args:
        job: This node of it.
        timeout_seconds: How long to wait.

    Raises:
        NotMetError: If one of them has not connected when the time is up.
    """
    until = time.monotonic() + timeout_seconds
    if job.node_count == 1:
        return [_OWN]
    return _receive(job, until) if job.main_address else _gather(job, until)


def _gather(job: BatchJob, until: float) -> list[str]:
    """The main node: accept every other node, then send all of them the addresses."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("", job.port), backlog=job.node_count))
        there: dict[int, socket.socket] = {}
        while len(there) < job.node_count - 1:
            left = until - time.monotonic()
            if left <= 0 or not select.select([server], [], [], left)[0]:
                missing = sorted(set(range(1, job.node_count)) - set(there))
                raise NotMetError(f"{len(there) + 1} of {job.node_count} nodes are there; rank {missing[0]} is not")
            guest = _kept_alive(stack.enter_context(server.accept()[0]))
            rank = _rank_of(guest, job)
            # A node that starts to wait again connects a second time.
            if rank is not None:
                there[rank] = guest
        own = there[1].getsockname()[0]
        addresses = [own, *(there[rank].getpeername()[0] for rank in sorted(there))]
        silent = [rank for rank, guest in sorted(there.items()) if not _confirms(guest, addresses)]
        if silent:
            raise NotMetError(f"all {job.node_count} nodes were there; rank {silent[0]} does not answer any more")
        return addresses


def _rank_of(guest: socket.socket, job: BatchJob) -> int | None:
    """The rank that a guest names; None for one that is no node of this attempt."""
    with suppress(OSError, ValueError):
        guest.settimeout(_ANSWER_SECONDS)
        sent = json.loads(_line(guest))
        rank = sent["rank"] if isinstance(sent, dict) and sent.get("attempt") == job.attempt else None
        return rank if isinstance(rank, int) and 0 < rank < job.node_count else None
    return None


def _confirms(guest: socket.socket, addresses: list[str]) -> bool:
    """Whether a guest got the addresses: sending alone succeeds also to one that is gone."""
    with suppress(OSError, ValueError):
        guest.sendall(json.dumps(addresses).encode() + b"\n")
        return _line(guest) == _CONFIRMED
    return False


def _kept_alive(connection: socket.socket) -> socket.socket:
    """The connection, which is not idle while both sides wait."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
        connection.setsockopt(socket.IPPROTO_TCP, option, _ALIVE_SECONDS)
    return connection


def _receive(job: BatchJob, until: float) -> list[str]:
    """Every other node: connect to the main node, and wait for the addresses."""
    request = json.dumps({"attempt": job.attempt, "rank": job.rank}).encode() + b"\n"
    reason = "no time to wait"
    while (left := until - time.monotonic()) > 0:
        try:
            with socket.create_connection((job.main_address, job.port), timeout=min(left, 10)) as main:
                _kept_alive(main).sendall(request)
                main.settimeout(max(0.1, until - time.monotonic()))
                found = json.loads(_line(main))
                if isinstance(found, list) and len(found) == job.node_count:
                    main.sendall(_CONFIRMED)
                    return [str(one) for one in found]
                reason = "the main node answered something else"
        except (OSError, ValueError) as fault:
            reason = f"{job.main_address}:{job.port}: {fault}"
        time.sleep(min(random.uniform(*_PAUSE_SECONDS), max(0.0, until - time.monotonic())))  # noqa: S311 - no secret
    raise NotMetError(f"the main node has not named the others: {reason}")


def _line(connection: socket.socket) -> bytes:
    """One line; ValueError if the other side ends first, or does not end."""
    text = b""
    while not text.endswith(b"\n"):
        piece = connection.recv(65536)
        text += piece
        if not piece or len(text) > _LONGEST_LINE:
            raise ValueError("the connection ended within a line")
    return text
