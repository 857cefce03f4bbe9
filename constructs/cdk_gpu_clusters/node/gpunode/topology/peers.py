"""The nodes of this node's Auto Scaling group that are in service, in an order on which all of them agree."""

from __future__ import annotations

import ipaddress
import random
import time
from dataclasses import dataclass

from ..aws import AwsError
from ..lifecycle import membership
from ..node import Node
from .network import NetworkNodes, network_nodes

# Spread out: a thousand nodes must not ask in step.
_PAUSE_SECONDS = (5.0, 10.0)


class NoPeersError(Exception):
    """This node has no peers; the text says why."""


class NotYetError(Exception):
    """AWS, or too few nodes: asking again later may help."""


@dataclass(frozen=True)
class Peer:
    """A node in service.

    Attributes:
        private_ip: Its private IPv4 address.
        instance_id: Its instance.
        network_nodes: The network nodes above it, from the top layer to the one next to it; empty where EC2 does not
            tell.
    """

    private_ip: str
    instance_id: str
    network_nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Peers:
    """The nodes in service.

    Attributes:
        nodes: Neighbours in EC2's network are neighbours here; without it, in numeric order of their addresses.
        warning: Why the order is that of addresses, though the network's was asked for; empty otherwise.
    """

    nodes: list[Peer]
    warning: str = ""


def find_peers(node: Node, *, by_network: bool = True) -> Peers:
    """List the nodes of this node's group that are in service.

    Args:
        node: This node.
        by_network: Whether neighbours in EC2's network stand beside each other, or addresses decide alone.

    Raises:
        NoPeersError: If this node is in no group.
        NotYetError: If AWS does not answer. Another order than that of the other nodes would be worse than none.
    """
    try:
        group = membership(node).group
        if not group:
            raise NoPeersError("this instance is not in an Auto Scaling group, so it has no peers")
        found = _in_service(node, group)
        known = (
            network_nodes(node.aws, [peer.instance_id for peer in found]) if by_network else NetworkNodes()
        )
    except AwsError as fault:
        raise NotYetError(str(fault)) from fault
    placed = [
        Peer(peer.private_ip, peer.instance_id, known.above.get(peer.instance_id, ())) for peer in found
    ]
    return Peers(sorted(placed, key=_place), known.why_unknown)


def wait_for_peers(node: Node, count: int, *, timeout_seconds: float, by_network: bool = True) -> Peers:
    """List the nodes once so many of them are in service.

    Args:
        node: This node.
        count: How many.
        timeout_seconds: When to give up.
        by_network: As in `find_peers`.

    Raises:
        NoPeersError: If this node is in no group.
        NotYetError: If there are fewer, or AWS does not answer, when the time is over.
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
