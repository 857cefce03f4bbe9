"""Ports of a node that runs model servers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from cdk_gpu_clusters.errors import Finding, define_rule

# Privileged ports end at 1023 (ip(7)); ephemeral ports, which outgoing connections take, begin at 32768 (Linux
# kernel documentation, ip_local_port_range).
_FIRST_PORT, _LAST_PORT = 1024, 32_767

PORTS = define_rule(
    "GPU-INF-004",
    "the ports of a node differ, and lie from 1,024 to 32,767",
    source="ip(7); Linux kernel documentation, ip_local_port_range",
)


def check_ports(**taken: Sequence[int]) -> list[Finding]:
    """Find ports of a node that collide, or that a server cannot count on.

    Args:
        taken: By the name of the parameter, the ports that follow from it, in their order.
    """
    findings = [
        PORTS.finding(
            cause=f"{name} is privileged, or other programs may have taken it for a connection of theirs",
            got=_span(ports),
            allowed=f"{_FIRST_PORT} to {_LAST_PORT}",
            fix=f"change {name}",
        )
        for name, ports in taken.items()
        if ports[0] < _FIRST_PORT or ports[-1] > _LAST_PORT
    ]
    findings += [
        PORTS.finding(
            cause=f"{name} and {other} take the same port",
            got=f"{_span(taken[name])} and {_span(taken[other])}",
            allowed="ports that differ",
            fix=f"change {name} or {other}",
        )
        for name, other in combinations(taken, 2)
        if set(taken[name]) & set(taken[other])
    ]
    return findings


def _span(ports: Sequence[int]) -> str:
    return str(ports[0]) if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"
