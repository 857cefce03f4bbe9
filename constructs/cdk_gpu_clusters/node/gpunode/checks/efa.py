"""EFA: as many devices as the node was launched with, and libfabric's provider for them.

A node with too few is replaced, and a provider that libfabric does not have is watched: awslabs/awsome-distributed-ai
@ 95b939c, 2.gpu-cluster-healthcheck. On P5en devices may come late.
"""

from __future__ import annotations

import re

from .. import efa
from ..command import NOT_FOUND
from ..node import Node
from .check import Result, Severity

_NAME = "efa"


def check_efa(node: Node) -> list[Result]:
    """Count the devices, and ask libfabric for them."""
    wanted, seen = node.settings.number("efa_count"), len(efa.devices())
    found, expected = f"{seen} EFA devices", f"{wanted} EFA devices"
    if seen < wanted:
        fix = "look again in a minute; if it stays so, replace the node"
        return [Result(_NAME, Severity.REPLACE, found, expected, fix)]
    return [Result(_NAME, Severity.OK, found, expected), _provider(seen)]


def _provider(seen: int) -> Result:
    outcome = efa.ask_provider()
    if outcome.status == NOT_FOUND:
        return Result("efa-provider", Severity.UNKNOWN, "fi_info is not installed")
    domains = set(re.findall(r"^\s*domain:\s*(\S+)-rdm$", outcome.output, re.MULTILINE))
    found = f"libfabric's provider efa has {len(domains)} devices"
    if len(domains) >= seen:
        return Result("efa-provider", Severity.OK, found)
    if not domains:
        found = f"libfabric has no provider efa: {outcome.words}"
    fix = "install the EFA software of the image again"
    return Result("efa-provider", Severity.MONITOR, found, f"{seen} devices", fix)
