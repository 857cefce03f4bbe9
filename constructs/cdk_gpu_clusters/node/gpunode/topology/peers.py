"""The nodes in service of this node's Auto Scaling group, in an order on which all of them agree.

In a container of a multi-node job of AWS Batch, the nodes are those of the job.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import random
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import paths
from ..lifecycle import membership
from ..node import Aws, AwsError, Node, this_node
from .batch_job import BatchJob, NotMetError, batch_job, meet
from .slurm import topology_conf

_HOSTS = "/etc/gpu-cluster/hosts"
_TIMEOUT_SECONDS = 600
# AWS Batch starts the other containers when that of the main node runs, and only then they fetch their image (AWS Batch
# user guide, "Job lifecycle for MNP jobs"): enough for one of 20 GB at 12 MB/s.
_BATCH_TIMEOUT_SECONDS = 1800

_TEXT = """\
The nodes in service in this node's Auto Scaling group. Nodes that are near each other in EC2's network are next to
each other, and all nodes agree on the order, so that the first is rank 0 for all. If EC2 does not report the network,
the order is that of the private addresses, with a warning.

  mpirun --hostfile <(gpu-peers --format mpirun) ...
  eval "$(gpu-peers --format torchrun)"      sets MASTER_ADDR MASTER_PORT NNODES NODE_RANK NPROC_PER_NODE
  torchrun --rdzv-endpoint "$(gpu-peers --rdzv-endpoint)" ...
  gpu-peers --format imex --output /etc/nvidia-imex/nodes_config.cfg && systemctl restart nvidia-imex
  gpu-peers --format slurm > topology.conf   for your own slurmctld, with TopologyPlugin=topology/tree

In a container of a multi-node job of AWS Batch: the nodes of the job, by their index there, the main node first. It
waits for all of them, at most for the seconds of --timeout, 1800 if left out.

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
    add("--timeout", type=_number, metavar="SECONDS", help=f"of --wait, {_TIMEOUT_SECONDS} if left out")
    add("--write", action="store_true", help=f"to {_HOSTS}, as mpirun if no format is given")
    add("--output", metavar="FILE", help="to a file, which is replaced in one step")
    command.set_defaults(run=peers)


def peers(given: argparse.Namespace) -> int:
    """Print or write the list, and return the exit status."""
    form = "rdzv" if given.rdzv_endpoint else given.format or ("mpirun" if given.write else "plain")
    if given.own_first and form in SAME_ON_ALL:
        return _fail(f"--own-first breaks {form}: all nodes must see the same order", os.EX_USAGE)
    try:
        job = batch_job()
        if job is not None:
            return _of_batch(job, form, given)
    except NotMetError as reason:
        return _fail(str(reason), os.EX_TEMPFAIL)
    node = this_node()
    timeout = _TIMEOUT_SECONDS if given.timeout is None else given.timeout
    try:
        found = wait_for_peers(node, given.wait, timeout_seconds=timeout, by_network=given.order == "network")
        if found.warning:
            _warn(f"ordered by address, not by network: {found.warning}")
        text = as_text(
            _ordered(found.nodes, node, own_first=given.own_first),
            form,
            own_id=node.instance_id,
            slots=given.slots or node.settings.number("slots", 1),
            port=given.port,
        )
    except NoPeersError as reason:
        return _fail(str(reason), os.EX_UNAVAILABLE)
    except NotYetError as reason:
        return _fail(str(reason), os.EX_TEMPFAIL)
    return _hand_out(text, given)


def _of_batch(job: BatchJob, form: str, given: argparse.Namespace) -> int:
    """Print or write the nodes of a job of AWS Batch, whose containers have no settings of a node."""
    if form == "slurm":
        return _fail("a job of AWS Batch has no topology for Slurm", os.EX_USAGE)
    addresses = meet(job, timeout_seconds=_BATCH_TIMEOUT_SECONDS if given.timeout is None else given.timeout)
    nodes = [Peer(address, _name_in_job(rank)) for rank, address in enumerate(addresses)]
    own = _name_in_job(job.rank)
    if given.own_first:
        nodes.sort(key=lambda peer: peer.instance_id != own)
    slots = given.slots or _number(os.environ.get("GPU_SLOTS", "1"))
    return _hand_out(as_text(nodes, form, own_id=own, slots=slots, port=given.port), given)


def _name_in_job(rank: int) -> str:
    """The name of a node in place of its instance, which a container does not know."""
    return f"node-{rank}"


def _hand_out(text: str, given: argparse.Namespace) -> int:
    if given.write or given.output:
        file = paths.below(_HOSTS) if given.write else Path(given.output)
        file.parent.mkdir(parents=True, exist_ok=True)
        paths.write_atomically(file, text + "\n")
    else:
        sys.stdout.write(text + "\n")
    return 0


def _ordered(nodes: list[Peer], node: Node, *, own_first: bool) -> list[Peer]:
    return sorted(nodes, key=lambda peer: peer.instance_id != node.instance_id) if own_first else nodes


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a number")
    return int(text)


def _warn(words: str) -> None:
    sys.stderr.write(f"gpu-peers: {words}\n")


def _fail(words: str, status: int) -> int:
    _warn(words)
    return status


# Random: a thousand nodes must not call AWS at the same time.
_PAUSE_SECONDS = (5.0, 10.0)


class NoPeersError(Exception):
    """This node has no peers; the text is the reason."""


class NotYetError(Exception):
    """AWS does not answer, or there are too few nodes. A later try may succeed."""


@dataclass(frozen=True)
class Peer:
    """A node in service.

    Attributes:
        private_ip: Its private IPv4 address.
        instance_id: Its instance.
        network_nodes: The network nodes above it, from the top layer to the one next to it; empty if EC2 does not
            report them.
    """

    private_ip: str
    instance_id: str
    network_nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Peers:
    """The nodes in service.

    Attributes:
        nodes: In the order of EC2's network, or else of their addresses.
        warning: Why the order is that of addresses although the network's was requested; empty otherwise.
    """

    nodes: list[Peer]
    warning: str = ""


def find_peers(node: Node, *, by_network: bool = True) -> Peers:
    """List the nodes of this node's group that are in service.

    Args:
        by_network: Whether to order by EC2's network, not by addresses alone.

    Raises:
        NoPeersError: If this node is in no group.
        NotYetError: If AWS does not answer. An order that differs from the other nodes' would be worse than none.
    """
    try:
        group = membership(node).group
        if not group:
            raise NoPeersError("this instance is not in an Auto Scaling group, so it has no peers")
        found = _in_service(node, group)
        known = network_nodes(node.aws, [peer.instance_id for peer in found]) if by_network else NetworkNodes()
    except AwsError as fault:
        raise NotYetError(str(fault)) from fault
    placed = [Peer(peer.private_ip, peer.instance_id, known.above.get(peer.instance_id, ())) for peer in found]
    return Peers(sorted(placed, key=_place), known.why_unknown)


def wait_for_peers(node: Node, count: int, *, timeout_seconds: float, by_network: bool = True) -> Peers:
    """List the nodes once the requested number is in service.

    Raises:
        NoPeersError: If this node is in no group.
        NotYetError: If there are fewer, or AWS does not answer, when the time is up.
    """
    start = time.monotonic()
    while True:
        try:
            peers = find_peers(node, by_network=by_network)
            if len(peers.nodes) >= max(1, count):
                return peers
            reason = f"{len(peers.nodes)} of {max(1, count)} nodes in service"
        except NotYetError as fault:
            reason = str(fault)
        passed = time.monotonic() - start
        if not count or passed >= timeout_seconds:
            raise NotYetError(f"{reason} after {passed:.0f} s")
        time.sleep(random.uniform(*_PAUSE_SECONDS))  # noqa: S311 - no secret


def _in_service(node: Node, group: str) -> list[Peer]:
    ready = node.aws.call(
        "autoscaling", "describe-auto-scaling-groups", "--auto-scaling-group-names", group,
        "--query", "AutoScalingGroups[].Instances[?LifecycleState=='InService'].InstanceId[]",
    )  # fmt: skip
    # By tag, not by id: a few pages for thousands of nodes, and no long command line.
    rows = node.aws.call(
        "ec2", "describe-instances",
        "--filters", f"Name=tag:aws:autoscaling:groupName,Values={group}",
        "Name=instance-state-name,Values=running",
        "--query", "Reservations[].Instances[].[PrivateIpAddress,InstanceId]",
    )  # fmt: skip
    return [Peer(str(address), str(name)) for address, name in rows or [] if name in (ready or [])]


def _place(peer: Peer) -> tuple[tuple[str, ...], ipaddress.IPv4Address]:
    return peer.network_nodes, ipaddress.IPv4Address(peer.private_ip)


# The place of instances in EC2's network (AWS EC2 user guide, "Amazon EC2 topology", stored copy of 2026). An
# instance has three or four layers of network nodes above it, depending on its type. Instances that share the last
# layer are nearest to each other. Supported types are g6e, g7e, p3dn, p4d, p4de, p5, p5e, p5en, p6-b200, p6-b300,
# p6e-gb200 and trn1 to trn2u. Other types have no answer.

# DescribeInstanceTopology: at most 100 instance ids in a call.
_BATCH = 100
# The API is eventually consistent, so an instance may appear late.
_TRIES = 3
_TOPOLOGY_PAUSE_SECONDS = 5.0
# Errors that every node of a fleet gets, now and later: its role, Region, type or AWS CLI does not support the call.
_NEVER = re.compile(
    "Unauthorized|AccessDenied|not authorized|Unsupported|InvalidAction|UnknownOperation|InvalidParameter"
    "|invalid choice",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class NetworkNodes:
    """The network nodes above instances.

    Attributes:
        above: By instance, from the top layer to the one next to it.
        why_unknown: Why there are none; empty if there are.
    """

    above: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    why_unknown: str = ""


def network_nodes(aws: Aws, instance_ids: Sequence[str]) -> NetworkNodes:
    """Query EC2 for all of these instances. A part of them would give no common order.

    Raises:
        AwsError: If it fails for now. Another node may get an answer, and its order must not differ.
    """
    above: dict[str, tuple[str, ...]] = {}
    for number in range(_TRIES):
        try:
            above.update(_ask(aws, [name for name in instance_ids if name not in above]))
        except AwsError as fault:
            if _NEVER.search(str(fault)):
                return NetworkNodes(why_unknown=str(fault))
            raise
        # The answer has no instance of a type without topology: another try would not help.
        if len(above) == len(instance_ids) or not above:
            break
        if number + 1 < _TRIES:
            time.sleep(_TOPOLOGY_PAUSE_SECONDS)
    if not above:
        return NetworkNodes(why_unknown="EC2 reports no topology of these instances")
    lost = [name for name in instance_ids if name not in above]
    if lost:
        return NetworkNodes(why_unknown=f"EC2 reports no topology of {' '.join(lost[:3])} ({len(lost)} in all)")
    return NetworkNodes(above)


def _ask(aws: Aws, instance_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for start in range(0, len(instance_ids), _BATCH):
        rows = aws.call(
            "ec2", "describe-instance-topology", "--instance-ids", *instance_ids[start : start + _BATCH],
            "--query", "Instances[].[InstanceId,NetworkNodes]",
        )  # fmt: skip
        found.update({str(name): tuple(map(str, nodes)) for name, nodes in rows or [] if nodes})
    return found


#: Formats by the names of `gpunode peers --format`.
FORMATS = ("plain", "mpirun", "torchrun", "imex", "json", "slurm")
#: Formats with ranks, or that must be the same file on all nodes.
SAME_ON_ALL = ("torchrun", "imex", "rdzv", "slurm")


def as_text(peers: Sequence[Peer], form: str, *, own_id: str, slots: int, port: int) -> str:
    """The list as text without a final newline.

    Args:
        peers: The nodes, the first of them rank 0.
        form: One of `FORMATS`, or `rdzv` for the endpoint of a rendezvous.

    Raises:
        NoPeersError: If this node needs a rank and is not in the list.
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
        variables = {
            "MASTER_ADDR": first,
            "MASTER_PORT": port,
            "NNODES": len(peers),
            "NODE_RANK": ranks.index(own_id),
            "NPROC_PER_NODE": slots,
        }
        return "\n".join(f"{name}={value}" for name, value in variables.items())
    if form == "slurm":
        return topology_conf({host_name(peer.private_ip): peer.network_nodes for peer in peers}).rstrip()
    if form == "json":
        return json.dumps([_as_row(peer, own_id) for peer in peers])
    return "\n".join(peer.private_ip for peer in peers)


def host_name(private_ip: str) -> str:
    """The short host name that EC2 gives an instance by its address, which Slurm uses as `NodeName`.

    Source: AWS EC2 user guide, "EC2 instance hostnames and domains": IP name, the default of IPv4 subnets.
    """
    return f"ip-{private_ip.replace('.', '-')}"


def _as_row(peer: Peer, own_id: str) -> dict[str, object]:
    return {
        "private_ip": peer.private_ip,
        "instance_id": peer.instance_id,
        "own": peer.instance_id == own_id,
        "network_nodes": list(peer.network_nodes),
    }
