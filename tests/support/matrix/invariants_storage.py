"""Invariants of the way between the nodes and the file systems that they mount."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from matrix.cloud import Place, Properties
from matrix.invariant import invariant
from matrix.invariants_access import PEERS
from matrix.nodes import Nodes

_PORTS = frozenset({988, *range(1018, 1024)})
_Groups = Sequence[Place | str]


@invariant("lustre-ports", 'FSx for Lustre user guide, "File system access control with Amazon VPC"')
def lustre_ports(nodes: Nodes) -> Iterator[str]:
    """Nodes and file servers reach each other on TCP 988 and 1018 to 1023, and the servers each other."""
    if nodes.asked.mounts and not nodes.file_servers:
        yield "no security group of a file system"
    clients: _Groups = nodes.security_groups
    for servers in nodes.file_servers:
        ends: list[tuple[_Groups, _Groups]] = [([servers], clients), (clients, [servers])]
        if isinstance(servers, Place):  # those of an existing file system are there already
            ends.append(([servers], [servers]))
        for groups, peers in ends:
            for direction, key in PEERS:
                missing = sorted(_PORTS - _open_ports(nodes, groups, direction, key, peers))
                if missing:
                    yield f"{direction.lower()} of {groups}: ports {missing} are closed to {peers}"


def _open_ports(nodes: Nodes, groups: _Groups, direction: str, key: str, peers: _Groups) -> set[int]:
    return {
        port
        for group in groups
        for stack, rule in nodes.rules(group, direction)
        if nodes.cloud.identity(stack, rule.get(key)) in peers
        for port in _ports(rule)
    }


def _ports(rule: Properties) -> Iterable[int]:
    if rule["IpProtocol"] == "-1":
        return _PORTS
    return range(rule["FromPort"], rule["ToPort"] + 1) if rule["IpProtocol"] == "tcp" else ()
