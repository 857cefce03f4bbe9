"""A network namespace with loopback and eth0, and servers of this process inside it."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Made = TypeVar("Made")

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class NetworkNamespace:
    """A network of its own, which is gone with this process: no name is registered, so that nothing is left behind.

    Args:
        of: A process whose network it is; a new one if left out.

    Attributes:
        path: Where other programs find it.
    """

    def __init__(self, of: int | None = None) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC
        self._descriptor = _in_a_thread(self._make) if of is None else os.open(f"/proc/{of}/ns/net", flags)
        self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def close(self) -> None:
        os.close(self._descriptor)

    def listen(self, address: str, port: int) -> socket.socket:
        """A socket that listens inside, on an address that loopback gets for it."""
        return _in_a_thread(lambda: self._listen(address, port))

    def connect(self, target: tuple[str, int]) -> socket.socket:
        """A connection that comes from inside."""
        return _in_a_thread(lambda: self._connect(target))

    def swallow(self, address: str) -> None:
        """From now on, packets to this address go out and are never answered, as in a subnet without a route."""
        _in_a_thread(lambda: self._swallow(address))

    def join(self, lan: NetworkNamespace, address: str, number: int) -> None:
        """Reach the others that joined a network, which is a bridge in a namespace of its own.

        Args:
            lan: The network.
            address: Address there.
            number: Its number in the network, from 1.
        """
        if number == 1:
            _in_a_thread(lan._make_bridge)
        _in_a_thread(lambda: self._join(lan.path, address, f"port{number}"))
        _in_a_thread(lambda: lan._attach(f"port{number}"))

    def _make_bridge(self) -> None:
        self._enter()
        _ip("link", "add", "lan", "type", "bridge")
        _ip("link", "set", "lan", "up")

    def _attach(self, port: str) -> None:
        self._enter()
        _ip("link", "set", port, "master", "lan", "up")

    def _join(self, lan: str, address: str, port: str) -> None:
        self._enter()
        _ip("link", "add", "lan0", "type", "veth", "peer", "name", port, "netns", lan)
        _ip("address", "add", f"{address}/8", "dev", "lan0")
        _ip("link", "set", "lan0", "up")

    def _make(self) -> int:
        _check(_libc.unshare(_CLONE_NEWNET))
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "eth0", "type", "veth", "peer", "name", "wire")
        _ip("address", "add", "10.77.0.2/24", "dev", "eth0")
        for interface in ("eth0", "wire"):
            _ip("link", "set", interface, "up")
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def _enter(self) -> None:
        _check(_libc.setns(self._descriptor, _CLONE_NEWNET))

    def _listen(self, address: str, port: int) -> socket.socket:
        self._enter()
        _ip("address", "replace", f"{address}/32", "dev", "lo")
        return socket.create_server((address, port), backlog=128)

    def _connect(self, target: tuple[str, int]) -> socket.socket:
        self._enter()
        return socket.create_connection(target)

    def _swallow(self, address: str) -> None:
        self._enter()
        _ip("neighbour", "replace", address, "lladdr", "02:00:00:00:00:99", "dev", "eth0")


def _in_a_thread(work: Callable[[], Made]) -> Made:
    """A thread changes its own namespace only, and ends in it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _check(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
