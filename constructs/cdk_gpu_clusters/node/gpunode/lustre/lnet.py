"""Lustre's network, as `lnetctl` shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..command import Outcome, run

_TIMEOUT_SECONDS = 30
_NID = re.compile(r"- nid: (\S+)@(\S+)")


@dataclass(frozen=True)
class Interface:
    """An interface of this node in Lustre's network.

    Attributes:
        network: `tcp`, `efa` or `lo`.
        device: Network or EFA device; empty for `lo`.
        is_up: Whether it can be used.
        sent: Messages that went out by it since it was configured.
    """

    network: str
    device: str
    is_up: bool
    sent: int


def lnetctl(*arguments: str, timeout_seconds: float = _TIMEOUT_SECONDS) -> Outcome:
    """Run `lnetctl`."""
    return run("lnetctl", *arguments, timeout_seconds=timeout_seconds)


def interfaces() -> list[Interface]:
    """The interfaces of this node; none where LNet is not configured."""
    parts = re.split(r"(?=- nid: )", lnetctl("net", "show", "-v").output)
    return [_interface(part) for part in parts if _NID.match(part)]


def sent(network: str, among: list[Interface]) -> int:
    """Messages that went out by the interfaces of one network."""
    return sum(one.sent for one in among if one.network == network)


def servers_with_efa() -> int:
    """Servers that told this node an EFA address of theirs; their first address is always of TCP."""
    peers = re.split(r"(?=- primary nid: )", lnetctl("peer", "show").output)
    return sum(
        any(network == "efa" for _, network in _NID.findall(peer))
        for peer in peers
        if re.match(r"- primary nid: \S+@tcp\b", peer)
    )


def _interface(text: str) -> Interface:
    network = _NID.match(text)
    device = re.search(r"interfaces:\s+0: (\S+)", text)
    count = re.search(r"send_count: (\d+)", text)
    return Interface(
        network=network[2] if network else "",
        device=device[1] if device else "",
        is_up="status: up" in text,
        sent=int(count[1]) if count else 0,
    )
