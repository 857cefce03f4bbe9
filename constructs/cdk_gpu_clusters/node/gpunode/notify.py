"""Tells systemd how a service is (`sd_notify`, systemd documentation, "Service notification protocol")."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def watchdog_seconds() -> float | None:
    """How often systemd wants to hear `WATCHDOG=1` at the latest (WatchdogSec); None where it does not listen."""
    try:
        return int(os.environ.get("WATCHDOG_USEC", "")) / 1_000_000
    except ValueError:
        return None


def notify(*states: str) -> None:
    """Tell systemd; outside a service of `Type=notify`, nobody listens.

    Args:
        states: Assignments such as `READY=1` or `WATCHDOG=1`.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as peer:
        peer.settimeout(1)
        # An address in the abstract name space begins with a zero byte, which an environment cannot hold.
        peer.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        peer.sendall("\n".join(states).encode())
